"""All that one broker does as a transaction coordinator, put together."""

from __future__ import annotations

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import Listings
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
        self._work = services.work
        self.listings = Listings(services.work)
        self.completion = Completion(services)
        self.coordinator = TransactionCoordinator(services, replicas, self.completion)
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
        """Expire transactional ids from time to time."""
        interval_ms = self.config.expiration_check_interval_ms
        await self._work.repeat(self.clock, interval_ms, self.coordinator.expiry_steps)
