"""The client quotas of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from purgatorio.broker.layers.quotas.altering import EntityEdit, EntityResult, QuotaEdit, alter_client_quotas
from purgatorio.broker.layers.quotas.naming import Part, parts_of
from purgatorio.broker.metadata.store import StoreError
from purgatorio.broker.operator.errors import ClusterUnavailable, OperationRefused
from purgatorio.broker.operator.network import ConnectedBroker, Network
from purgatorio.broker.operator.polling import until


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
        return [ListedQuotas(parts_of(each), values) for each, values in self._newest().image.client_quotas.items()]

    async def edit(self, entity: Sequence[Part], values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, or remove those whose value is None; returns when all brokers apply them.

        Raises:
            OperationRefused: there is no such entity or quota, or its value cannot be; the text says why.
            ClusterUnavailable: no broker runs that could decide it, or brokers did not hear of it in time.
        """
        edit = EntityEdit(entity, [QuotaEdit(key, value) for key, value in values.items()])
        answer: asyncio.Future[EntityResult] = asyncio.get_running_loop().create_future()
        broker = self._newest()
        broker.store.submit(
            lambda image: alter_client_quotas(image, [edit]),
            lambda results: None if answer.done() else answer.set_result(results[0]),
            lambda error: None if answer.done() else answer.set_exception(error),
        )
        try:
            result = await answer
        except StoreError as error:
            raise ClusterUnavailable(f"the quotas were not changed: {error}") from error
        if result.error:
            raise OperationRefused(result.message or result.error.name)
        version = broker.image.version
        await until(
            lambda: all(each.image.version >= version for each in self._network.brokers), "all brokers know the quotas"
        )

    def _newest(self) -> ConnectedBroker:
        brokers = self._network.brokers
        if not brokers:
            raise ClusterUnavailable("no broker is running that reaches the metadata")
        return max(brokers, key=lambda each: each.image.version)
