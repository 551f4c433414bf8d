"""What the metrics read of brokers and their replicas, as interfaces: the tests implement them as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from purgatorio.broker.layers.access.access import Access
from purgatorio.broker.layers.quotas.client_quotas import BrokerQuotas
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.txn.overview import TransactionNumbers


class PurgatoryView(Protocol):
    """A purgatory, as the metrics read it."""

    @property
    def name(self) -> str:
        """Kafka's name for it: Produce, Fetch …"""
        ...

    @property
    def watched(self) -> int:
        """Entries in its watch lists; an operation counts once per key."""
        ...

    @property
    def num_delayed(self) -> int:
        """Number of parked operations."""
        ...


class LogView(Protocol):
    """A replica's log, as the metrics read it."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset after the last."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        ...

    @property
    def producers(self) -> ProducerStates:
        """Its producers and their transactions."""
        ...


class FollowerView(Protocol):
    """A leader's knowledge of a follower."""

    @property
    def log_end_offset(self) -> int:
        """Its log end offset; negative while unknown."""
        ...


class PartitionView(Protocol):
    """A replica, as the metrics read it."""

    @property
    def tp(self) -> TopicPartition:
        """The partition's name."""
        ...

    @property
    def is_leader(self) -> bool:
        """True if this replica is the leader."""
        ...

    @property
    def replicas(self) -> Sequence[int]:
        """Ids of all brokers that hold the partition."""
        ...

    @property
    def isr(self) -> Sequence[int]:
        """Ids of the in-sync replicas."""
        ...

    @property
    def min_in_sync_replicas(self) -> int:
        """Number of in-sync replicas that acks=all needs."""
        ...

    @property
    def high_watermark(self) -> int:
        """The high watermark: consumers read records below it."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: consumers under read_committed read records below it."""
        ...

    @property
    def refusal(self) -> str:
        """The reason why it has not appended its leader's last answer; empty if it has, or leads."""
        ...

    @property
    def log(self) -> LogView:
        """Its records."""
        ...

    @property
    def followers(self) -> Mapping[int, FollowerView]:
        """On the leader, the other replicas by broker id."""
        ...


class FetchSessionsView(Protocol):
    """A broker's fetch sessions (KIP-227)."""

    @property
    def evictions(self) -> int:
        """The sessions that made room for others."""
        ...

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions."""
        ...

    def __len__(self) -> int:
        """The number of sessions."""
        ...


class GroupsView(Protocol):
    """The groups that a broker coordinates."""

    @property
    def offset_count(self) -> int:
        """Their committed offsets."""
        ...

    @property
    def transactional_offset_count(self) -> int:
        """The offsets that open transactions have written."""
        ...

    @property
    def commit_count(self) -> int:
        """The offsets that were committed since the broker started."""
        ...

    @property
    def expiration_count(self) -> int:
        """The committed offsets that expired since the broker started."""
        ...

    def states(self) -> Iterator[str]:
        """Yield the state of each group; groups may change between two."""
        ...

    def committed(self, max_groups: int, max_offsets: int) -> Iterator[tuple[str, TopicPartition, int]]:
        """Yield group, partition and committed offset, up to these numbers; offsets may change between two."""
        ...


class CoordinatorsView(Protocol):
    """A broker's coordinators."""

    @property
    def transaction_numbers(self) -> TransactionNumbers:
        """How many transactions there are."""
        ...


class BrokerView(Protocol):
    """A broker, as the metrics read it."""

    @property
    def metrics(self) -> BrokerMetrics:
        """Its counters."""
        ...

    @property
    def purgatories(self) -> Iterable[PurgatoryView]:
        """Its purgatories."""
        ...

    @property
    def partitions(self) -> Iterable[PartitionView]:
        """Its replicas."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The latest metadata image that it has seen."""
        ...

    @property
    def log_memory(self) -> MemoryBudget:
        """The memory that its logs use."""
        ...

    @property
    def request_memory_used_bytes(self) -> int:
        """Request bytes that its connections hold."""
        ...

    @property
    def fetch_sessions(self) -> FetchSessionsView:
        """Its fetch sessions."""
        ...

    @property
    def groups(self) -> GroupsView:
        """The groups that it coordinates."""
        ...

    @property
    def coordinators(self) -> CoordinatorsView:
        """Its coordinators."""
        ...

    @property
    def quotas(self) -> BrokerQuotas:
        """The client quotas."""
        ...

    @property
    def access(self) -> Access | None:
        """What ACLs allow; None without an authorizer."""
        ...

    def replica(self, tp: TopicPartition) -> PartitionView | None:
        """Return its replica of a partition, or None."""
        ...
