"""The client quotas of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from purgatorio.broker.layers.quotas.altering import EntityEdit, QuotaEdit, alter_client_quotas
from purgatorio.broker.layers.quotas.naming import Part, parts_of
from purgatorio.broker.operations.control.decisions import decided_for_all, newest
from purgatorio.broker.operations.control.network import Network
from purgatorio.broker.operations.errors import OperationRefused


class ListedQuotas(NamedTuple):
    """The quotas of one entity.

    Attributes:
        entity: its parts; a name of None is the default.
        values: by Kafka's names of quotas.
    """

    entity: Sequence[Part]
    values: Mapping[str, float]


class Quotas:
    """Lists and changes the client quotas of a running cluster.

    Args:
        network: tells the brokers that take part in decisions.
    """

    def __init__(self, network: Network) -> None:
        self._network = network

    def listed(self) -> list[ListedQuotas]:
        """Return the quotas of all entities, in the order in which they got their first.

        Raises:
            ClusterUnavailable: no broker runs that knows them.
        """
        return [
            ListedQuotas(parts_of(each), values) for each, values in newest(self._network).image.client_quotas.items()
        ]

    async def edit(self, entity: Sequence[Part], values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, or remove those whose value is None; returns when all brokers apply them.

        Raises:
            OperationRefused: there is no such entity or quota, or its value cannot be; the text says why.
            ClusterUnavailable: no broker runs that could decide it, or brokers did not hear of it in time.
        """
        edit = EntityEdit(entity, [QuotaEdit(key, value) for key, value in values.items()])
        results = await decided_for_all(
            self._network, lambda image: alter_client_quotas(image, [edit]), "the quotas were not changed", "the quotas"
        )
        if results[0].error:
            raise OperationRefused(results[0].message or results[0].error.name)
