"""One partition of `__share_group_state` that this broker leads, and how its records make the states in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.state.batches import StateBatches
from purgatorio.broker.share.state.kept_state import KeptState
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import BatchHeader
from purgatorio.protocol.share_state import (
    SharePartitionKey,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    decode_key,
    decode_value,
)

RECORD_WORK: Final = 3
"""As how many records a record counts when it is replayed, beside its batches."""
BATCHES_PER_WORK: Final = 5
"""The state batches of a record that count as 1."""


class BatchBudget:
    """Counts the state batches of all share partitions that one broker coordinates.

    Args:
        limit: the most that there may be.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def check(self, more: int) -> None:
        """Check that there may be so many more.

        Raises:
            CoordinatorError: POLICY_VIOLATION.
        """
        if self.used + more > self._limit:
            message = f"This broker keeps at most {self._limit} state batches (share.coordinator.max.batches)."
            raise CoordinatorError(ErrorCode.POLICY_VIOLATION, message)


class ShareShard(Shard):
    """The share partitions of one partition.

    The states are those of the log's end: records change them when they are appended, and answers leave when they are
    committed. So clients see committed states only.

    Attributes:
        states: by share partition; `put`, `apply` and `remove` change them.
    """

    __slots__ = ("_budget", "_states", "states")

    def __init__(self, tp: TopicPartition, leader_epoch: int, budget: BatchBudget) -> None:
        super().__init__(tp, leader_epoch)
        self._budget = budget
        self._states: dict[SharePartitionKey, KeptState] = {}
        self.states: Mapping[SharePartitionKey, KeptState] = self._states

    def put(self, key: SharePartitionKey, state: KeptState) -> None:
        """Keep a state, in place of an earlier one."""
        self.remove(key)
        self._states[key] = state
        self._budget.used += len(state.batches)

    def apply(self, key: SharePartitionKey, update: ShareUpdateValue, changes: StateBatches | None = None) -> None:
        """Apply an update to a state; see `KeptState.apply`."""
        state = self._states[key]
        before = len(state.batches)
        state.apply(update, changes)
        self._budget.used += len(state.batches) - before

    def remove(self, key: SharePartitionKey) -> None:
        """Forget a state, if there is one."""
        state = self._states.pop(key, None)
        if state is not None:
            self._budget.used -= len(state.batches)

    def leave(self) -> None:
        """Forget all states: the shard is unloaded."""
        for key in list(self._states):
            self.remove(key)

    # --- loading ---

    def replay(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply a record. An update without a snapshot before it, which was deleted, is older than a later snapshot."""
        decoded = None if key is None else decode_key(key)
        if decoded is None:
            return 1
        name = SharePartitionKey(decoded.group_id, decoded.topic_id, decoded.partition)
        read = decode_value(decoded, value)
        if read is None:
            if isinstance(decoded, ShareSnapshotKey):
                self.remove(name)
            return RECORD_WORK
        if isinstance(read, ShareSnapshotValue):
            self.put(name, KeptState(read, batch.base_offset))
        elif name in self._states:
            self.apply(name, read)
        return RECORD_WORK + len(read.state_batches) // BATCHES_PER_WORK

    def replay_end(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Skip a marker: no client writes to this topic in a transaction."""
