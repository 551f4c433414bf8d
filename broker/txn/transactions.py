"""All that one broker does as a transaction coordinator, put together."""

from __future__ import annotations

import asyncio

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import Listings, in_turns
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.coordinator import TransactionCoordinator
from purgatorio.broker.txn.partitions import TransactionPartitions
from purgatorio.broker.txn.producers import Producers
from purgatorio.broker.txn.requests import TransactionRequests
from purgatorio.broker.txn.services import TransactionServices


class Transactions:
    """The transaction coordinator of one broker.

    Attributes:
        producer_ids: allocates producer ids, also for producers without a transactional id.
        coordinator: the transactional ids that this broker coordinates.
        producers: InitProducerId and EndTxn.
        partitions: AddPartitionsToTxn and AddOffsetsToTxn.
        purgatory: the requests that wait for transitions.
        timeout_purgatory: the open transactions.
    """

    def __init__(self, services: TransactionServices, replicas: ReplicaManager) -> None:
        self.config = services.config
        self.clock = services.clock
        self.producer_ids = services.producer_ids
        self.purgatory = services.purgatory
        self.timeout_purgatory = services.timeout_purgatory
        self._image = services.image
        self._has_work = asyncio.Event()
        self._has_listing = asyncio.Event()
        self.listings = Listings(self._has_listing.set)
        self.completion = Completion(services)
        self.coordinator = TransactionCoordinator(services, replicas, self.completion, wake=self._has_work.set)
        requests = TransactionRequests(services, self.completion, self.coordinator.shard_of)
        self.producers = Producers(services, self.completion, requests)
        self.partitions = TransactionPartitions(services, self.completion, requests)

    @property
    def image(self) -> ClusterImage:
        """The image that this broker acts on."""
        return self._image()

    # --- for observers ---

    @property
    def id_count(self) -> int:
        """The transactional ids that this broker coordinates."""
        return sum(len(shard.transactions) for shard in self.coordinator.shards)

    @property
    def open_count(self) -> int:
        """The open transactions, without those that are being ended."""
        return self.timeout_purgatory.num_delayed

    async def run(self) -> None:
        """Load, unload, expire and list transactional ids in turns of the loop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(in_turns(self._has_work, self.coordinator.steps))
            tasks.create_task(in_turns(self._has_listing, self.listings.steps))
            tasks.create_task(self._expire())

    async def _expire(self) -> None:
        while True:
            await self.clock.sleep(self.config.expiration_check_interval_ms)
            for _ in self.coordinator.expiry_steps():
                await asyncio.sleep(0)
