"""Client quotas in a simulated cluster: so low that clients are muted again and again, until the faults have healed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from purgatorio.broker.layers.quotas.altering import EntityEdit, QuotaEdit, alter_client_quotas
from purgatorio.broker.layers.quotas.naming import CLIENT_ID
from purgatorio.broker.layers.quotas.throttled_channel import PURGATORY
from purgatorio.broker.metadata.store import MetadataStore, decide
from purgatorio.broker.node.broker import Broker


async def limit_clients(store: MetadataStore, quotas: Mapping[str, float]) -> None:
    """Give each client id these quotas."""
    await _alter(store, [QuotaEdit(key, value) for key, value in quotas.items()])


async def free_clients(store: MetadataStore, quotas: Iterable[str], brokers: Iterable[Broker]) -> None:
    """Remove these quotas of each client id, and let muted connections go on: the clients have little time left."""
    await _alter(store, [QuotaEdit(key, None) for key in quotas])
    for broker in brokers:
        for purgatory in broker.purgatories:
            if purgatory.name == PURGATORY:
                for parked in purgatory.operations(limit=10_000):
                    operation = purgatory.find(parked.id)
                    if operation is not None:
                        operation.force_complete()


async def _alter(store: MetadataStore, edits: list[QuotaEdit]) -> None:
    edit = EntityEdit([(CLIENT_ID, None)], edits)
    await decide(store, lambda image: alter_client_quotas(image, [edit]))
