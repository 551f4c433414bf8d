"""The state of one share partition, as the records of `__share_group_state` make it: a snapshot, then updates.

Updates may come in any order, and more than once: a leader that got no answer writes again, while later writes may have
arrived. So the start offset never goes back, and the delivery-complete count of a start offset never falls; only
another snapshot, as that of an initialization, begins anew. (In Kafka the last update counts.)
"""

from __future__ import annotations

from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.state.batches import StateBatches
from purgatorio.protocol.share_state import (
    NO_START_OFFSET,
    UNKNOWN_COMPLETE_COUNT,
    ShareSnapshotValue,
    ShareUpdateValue,
)

NO_EPOCH = -1
"""The leader epoch of a state that was not read yet, and the epoch of a write that is not checked."""


class KeptState:
    """The state of a share partition.

    Args:
        snapshot: the record that it begins with.
        offset: where the snapshot is in the log, or an earlier offset; records of this share partition before it are
            not needed.

    Attributes:
        snapshot_epoch: grows with each snapshot.
        state_epoch: that of the group when the state was initialized.
        leader_epoch: the highest one that the state was read with; older leaders are fenced. A state that was not read
            yet has -1, and says 0, as in Kafka.
        delivery_complete_count: -1: unknown.
        created_ms: when the state was last written, as of the snapshot.
        written_ms: when the snapshot was written; a snapshot made anew has another time only here.
        update_count: the updates since the snapshot.
    """

    __slots__ = (
        "batches",
        "created_ms",
        "delivery_complete_count",
        "leader_epoch",
        "offset",
        "snapshot_epoch",
        "start_offset",
        "state_epoch",
        "update_count",
        "written_ms",
    )

    def __init__(self, snapshot: ShareSnapshotValue, offset: int) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.delivery_complete_count = snapshot.delivery_complete_count
        self.batches = StateBatches(snapshot.state_batches)
        self.batches.drop_below(self.start_offset)
        self.created_ms = snapshot.create_timestamp_ms
        self.written_ms = snapshot.write_timestamp_ms
        self.update_count = 0
        self.offset = offset

    def apply(self, update: ShareUpdateValue, changes: StateBatches | None = None) -> None:
        """Apply an update.

        Args:
            changes: the batches of the update, if they have been made before.
        """
        self.update_count += 1
        self.leader_epoch = max(self.leader_epoch, update.leader_epoch)
        start_offset, count = update.start_offset, update.delivery_complete_count
        if start_offset > self.start_offset:
            self.start_offset, self.delivery_complete_count = start_offset, count
            self.batches.drop_below(start_offset)
        elif start_offset in (NO_START_OFFSET, self.start_offset):
            is_known = count != UNKNOWN_COMPLETE_COUNT
            self.delivery_complete_count = max(count, self.delivery_complete_count) if is_known else count
        if changes is None:
            changes = StateBatches(update.state_batches)
        changes.drop_below(self.start_offset)
        self.batches.merge(changes)

    def copy(self) -> KeptState:
        """Return a copy, which can be changed."""
        made = KeptState.__new__(KeptState)
        for name in KeptState.__slots__:
            setattr(made, name, getattr(self, name))
        made.batches = self.batches.copy()
        return made

    def snapshot(self, *, created_ms: int, written_ms: int) -> ShareSnapshotValue:
        """Return the record of the whole state that follows its snapshot and updates."""
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            create_timestamp_ms=created_ms,
            write_timestamp_ms=written_ms,
            state_batches=self.batches.as_list(),
            delivery_complete_count=self.delivery_complete_count,
        )

    def read(self) -> ShareState:
        """Return the state for a leader. It counts what is complete itself."""
        leader_epoch = max(0, self.leader_epoch)
        return ShareState(self.state_epoch, leader_epoch, self.start_offset, batches=tuple(self.batches.as_list()))

    def summary(self) -> ShareState:
        """Return the state without its batches."""
        leader_epoch = max(0, self.leader_epoch)
        return ShareState(self.state_epoch, leader_epoch, self.start_offset, self.delivery_complete_count)
