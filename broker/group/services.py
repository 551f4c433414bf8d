"""The services that the parts of one broker's group coordinator share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.coordinator.end_offsets import FindEndOffsets
from purgatorio.broker.coordinator.share_settings import ShareGroupSettings
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.group.history import RebalanceHistory
from purgatorio.broker.group.memory import GroupMemory
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import Purgatory, Timer
from purgatorio.purgatory.clock import Clock


@dataclass(slots=True)
class Beating:
    """How many members of consumer groups and of share groups send heartbeats to this broker."""

    count: int = 0


class StatePersister(Protocol):
    """Begins, deletes and summarizes the states of share partitions, wherever their coordinators are.

    Each `done` is called exactly once, perhaps before the call returns, with NONE or the error that is left when all
    retries have failed.
    """

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Begin a new state, in place of one of an earlier epoch."""
        ...

    def delete(self, key: SharePartitionKey, *, done: Callable[[ErrorCode], None]) -> None:
        """Delete the state; one that does not exist is no error."""
        ...

    def summary(self, key: SharePartitionKey, *, done: Callable[[ErrorCode, Any], None]) -> None:
        """Read the state without its records: `leader_epoch`, `start_offset` and `delivery_complete_count`.

        Each is -1 while it is unknown: the state was not read yet, or the leader is to choose the start offset.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupServices:
    """The services that the parts of one broker's group coordinator share.

    Attributes:
        clock: monotonic time for sessions, wall time for records.
        rebalance_purgatory: Kafka's "Rebalance": joins and syncs that wait for other members.
        heartbeat_purgatory: Kafka's "Heartbeat": the session of each member, until its deadline.
        transaction_purgatory: "Transaction": commits with transactions, which wait for their coordinators.
        share_purgatory: returns "ShareGroup": states of share groups that are being initialized, and heartbeats that
            wait for them.
        share_settings: the settings of share groups.
        persister: reaches the states of share partitions.
        end_offsets: asks the leaders of partitions for the ends of their logs.
        work: takes the steps of what takes long.
        memory: the bytes that the groups of this broker keep.
        beating: counts the members whose heartbeats this broker paces.
        history: the last rebalances of the groups that this broker coordinates.
    """

    config: GroupConfig
    log: CoordinatorLog
    clock: Clock
    timer: Timer
    rng: random.Random
    image: Callable[[], ClusterImage]
    rebalance_purgatory: Purgatory[Any]
    heartbeat_purgatory: Purgatory[Any]
    transaction_purgatory: Purgatory[Any]
    share_purgatory: Callable[[], Purgatory[Any]]
    share_settings: ShareGroupSettings
    persister: StatePersister
    end_offsets: FindEndOffsets
    work: OwnWork
    memory: GroupMemory = field(default_factory=GroupMemory)
    beating: Beating = field(default_factory=Beating)
    history: RebalanceHistory = field(default_factory=RebalanceHistory)

    def check_room(self, more_bytes: int) -> None:
        """Check that the groups of this broker may keep so many more bytes.

        Raises:
            CoordinatorError: as `GroupMemory.check`.
        """
        self.memory.check(more_bytes, self.config.max_memory_bytes)


def random_uuid(rng: random.Random) -> str:
    """Return the text of a random UUID (RFC 9562, version 4); the module `uuid` takes two milliseconds to load."""
    bits = rng.getrandbits(128) & ~(0xF000 << 64 | 0xC000 << 48) | 4 << 76 | 0x8000 << 48
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
