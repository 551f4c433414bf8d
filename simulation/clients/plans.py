"""Plans of a simulation's groups and transactional clients, and the services that their clients share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.client import VERSIONS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.consumers import Reader

REQUEST_TIMEOUT_MS: Final = 3_000
"""Longer than that of other clients: a coordinator lets a request wait for the transition before it."""

SESSION_TIMEOUT_MS: Final = 2_000
REBALANCE_TIMEOUT_MS: Final = 2_500

Protocol = Literal["classic", "consumer", "mixed"]
"""The protocol of a group's members: that of JoinGroup, or that of ConsumerGroupHeartbeat (KIP-848), or both."""

FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
NOT_DONE: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
"""With these the coordinator has certainly changed nothing; COORDINATOR_NOT_AVAILABLE may follow an append."""


@dataclass(frozen=True, slots=True)
class ProducerVersions:
    """The request versions of a producer, which determine its protocol."""

    produce: int
    txn_offset_commit: int
    end_txn: int

    @property
    def adds_partitions(self) -> bool:
        """Whether the producer adds partitions to its transaction; else Produce and TxnOffsetCommit do."""
        return self.produce < 12

    @property
    def by_api(self) -> Mapping[ApiKey, int]:
        """The versions of all requests of such a producer."""
        own = {
            ApiKey.PRODUCE: self.produce,
            ApiKey.TXN_OFFSET_COMMIT: self.txn_offset_commit,
            ApiKey.END_TXN: self.end_txn,
        }
        return {**VERSIONS, **own}


OLD: Final = ProducerVersions(produce=9, txn_offset_commit=3, end_txn=3)
TV1: Final = ProducerVersions(produce=11, txn_offset_commit=4, end_txn=4)
TV2: Final = ProducerVersions(produce=12, txn_offset_commit=5, end_txn=5)


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """The transactional clients of a simulation.

    Attributes:
        writers: the number of those that write to the topics; each has a transactional id.
        timeout_ms: transaction.timeout.ms.
        zombies: whether another instance takes a transactional id over at times, and the one before goes on later.
        state_segment_bytes: as `Swarm.offsets_segment_bytes`, of ``__transaction_state``.
    """

    versions: ProducerVersions
    writers: int = 2
    timeout_ms: int = 2_000
    zombies: bool = False
    state_segment_bytes: int = 0

    def __str__(self) -> str:
        """Describe the clients."""
        zombies = ", with zombies" if self.zombies else ""
        segments = f", state in segments of {self.state_segment_bytes} bytes" if self.state_segment_bytes else ""
        protocol = f"{self.writers} transactional writers by Produce {self.versions.produce}"
        return f"{protocol}, {self.timeout_ms} ms to time out{zombies}{segments}"


@dataclass(frozen=True, slots=True)
class SharePlan:
    """A share group, which consumes all topics but the output.

    Attributes:
        version: of ShareFetch and ShareAcknowledge; 2 has acquire modes and renewals.
        lock_ms: share.record.lock.duration.ms.
        delivery_limit: share.delivery.count.limit.
        committed: whether share.isolation.level is read_committed.
        dead_letter_partitions: those of its dead-letter topic; 0: it has none.
        letters_want_all: whether a dead letter needs all replicas in sync: while one is away, dead letters wait.
    """

    group_id: str
    members: int = 3
    version: int = 2
    lock_ms: int = 1_000
    delivery_limit: int = 5
    committed: bool = False
    dead_letter_partitions: int = 0
    letters_want_all: bool = False

    def __str__(self) -> str:
        """Describe the group."""
        isolation = ", read_committed" if self.committed else ""
        letters = ", with dead letters" if self.dead_letter_partitions else ""
        letters += " on all replicas" if self.letters_want_all else ""
        limits = f"locks of {self.lock_ms} ms, at most {self.delivery_limit} deliveries{isolation}{letters}"
        return f"{self.group_id} of {self.members} members by ShareFetch {self.version}, {limits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """Services that the clients of one kind share.

    They are restless, may leave, be silent or slow, or have zombies, until the faults are over.
    """

    reader: Reader
    new_client: Callable[[str], Client]
    is_restless: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionShared(_Shared):
    """Services that transactional clients share; each waits out of `pause_ms` between two transactions."""

    plan: TransactionPlan
    outputs: tuple[Output, ...]
    values: Iterator[int]
    pause_ms: tuple[float, float]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that they write to."""
        return tuple(output.tp for output in self.outputs)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One consumer group, which consumes all topics.

    With `transforms` its members write what they read to another topic, in transactions that commit their offsets.
    """

    group_id: str
    protocol: Protocol = "classic"
    members: int = 2
    static: bool = False
    transforms: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShared(_Shared):
    """Services that the clients of one group share; it consumes `partitions`."""

    plan: GroupPlan
    partitions: tuple[TopicPartition, ...]
    topic_ids: dict[str, bytes]
    transactions: TransactionShared | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupShared(_Shared):
    """Services that the members of one share group share; it consumes `partitions`, by topic id and number."""

    plan: SharePlan
    partitions: dict[tuple[bytes, int], TopicPartition]


@dataclass(frozen=True, slots=True)
class Value:
    """A value to send, and the record that it is made from, as partition and offset."""

    value: int
    source: tuple[str, int] = ("", -1)
