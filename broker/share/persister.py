"""How leaders and the group coordinator reach the state of share partitions, which a share coordinator keeps (KIP-932).

The coordinator of a share partition is the leader of the partition of ``__share_group_state`` that its key is hashed
to. A `Persister` finds it, asks it, and asks again after errors that pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import UNKNOWN_COMPLETE_COUNT, SharePartitionKey, StateBatch


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state of a share partition, as it is read.

    Attributes:
        state_epoch: that of the group when the state was initialized.
        leader_epoch: the highest leader epoch that the state was read with; 0 if it was not read yet.
        start_offset: the share-partition start offset; -1: initialized, and to be chosen by the leader.
        delivery_complete_count: the records from the start offset on that are acknowledged or archived; -1: unknown.
            Only a summary has it.
        batches: by ascending offset, without overlaps. Empty in a summary.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COMPLETE_COUNT
    batches: tuple[StateBatch, ...] = ()


Done = Callable[[ErrorCode], None]
"""Receives NONE when the change is committed, or the error."""
ReadDone = Callable[[ErrorCode, ShareState | None], None]
"""Receives the state, or the error and None."""


class Persister(Protocol):
    """Reads and changes the states of share partitions, wherever their coordinators are.

    Each `done` is called exactly once, perhaps before the call returns, and never after the broker has stopped. Errors
    that pass (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION, a
    broker that cannot be reached) are reported only when all retries have failed. An error of `write` does not say that
    nothing was written.
    """

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin a new state, in place of an older one.

        Args:
            state_epoch: the group's epoch. FENCED_STATE_EPOCH if the state has a higher one.
            start_offset: -1: the leader chooses it at its first read.
        """
        ...

    def read(self, key: SharePartitionKey, *, leader_epoch: int, done: ReadDone) -> None:
        """Read the state, and fence the leaders before this epoch.

        Errors are FENCED_LEADER_EPOCH if the state was read with a higher leader epoch, and INVALID_REQUEST if it is
        not initialized.
        """
        ...

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Done,
    ) -> None:
        """Change the state.

        Of each offset the state with the higher delivery count stays, or of equal counts the higher state, so that
        writes may come in any order, and more than once.

        Errors are FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH if the state has a higher epoch, and INVALID_REQUEST if it
        is not initialized.

        Args:
            start_offset: the new start offset; -1: as before. It never goes back.
            batches: what has changed from the start offset on; not ACQUIRED.
        """
        ...

    def delete(self, key: SharePartitionKey, *, done: Done) -> None:
        """Delete the state; one that does not exist is no error."""
        ...

    def summary(self, key: SharePartitionKey, *, leader_epoch: int = -1, done: ReadDone) -> None:
        """Read the state without its batches. A state that is not initialized has start offset -1, which is no error.

        Args:
            leader_epoch: of no effect, as in Kafka.
        """
        ...
