"""Old records of share partitions are deleted, and old snapshots are made anew so that more can be."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.share.state import upkeep as upkeep_module
from purgatorio.broker.time import long_work
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey, ShareSnapshotValue, ShareUpdateValue
from tests.broker.replica.harness import topic
from tests.broker.share.state.harness import (
    KEY,
    ORDERS_ID,
    OTHER,
    PARTITION,
    ShareHarness,
    batch,
    initialized,
    state_topic,
)
from tests.broker.time.by_hand import turns_of

LONG_MS = 300_000


def prune(broker: ShareHarness) -> int:
    """Let the coordinator prune; returns the number of steps."""
    return turns_of(broker.shares.upkeep.prune_steps())


def snapshot(broker: ShareHarness) -> int:
    return turns_of(broker.shares.upkeep.snapshot_steps())


def bounds(broker: ShareHarness) -> tuple[int, int]:
    """Return the log's start and end."""
    log = broker.partition(PARTITION).log
    return log.log_start_offset, log.log_end_offset


def test_records_below_the_last_snapshot_are_deleted() -> None:
    broker = ShareHarness(updates_per_snapshot=2)
    initialized(broker)
    for offset in range(6):
        broker.write(batch(offset, offset))
    prune(broker)
    start, end = bounds(broker)
    assert (start, end) == (6, 8), "a snapshot at 0, 3 and 6, and updates between them"
    assert broker.shares.upkeep.pruned_count == 6
    assert [type(each) for each in broker.logged()] == [ShareSnapshotValue, ShareUpdateValue]


def test_nothing_is_deleted_twice() -> None:
    broker = ShareHarness(updates_per_snapshot=0)
    initialized(broker)
    broker.write(batch(0, 0))
    for _ in range(2):
        prune(broker)
        assert broker.shares.upkeep.pruned_count == 2


def test_the_lowest_snapshot_of_all_share_partitions_counts() -> None:
    broker = ShareHarness(updates_per_snapshot=0)
    broker.initialize(OTHER)
    for _ in range(3):
        broker.initialize(OTHER, start_offset=0)
    broker.initialize(KEY)
    for offset in range(4):
        broker.write(batch(offset, offset))
    prune(broker)
    assert bounds(broker) == (3, 9)


def test_a_deleted_state_holds_no_records() -> None:
    broker = ShareHarness()
    initialized(broker, KEY, OTHER)
    broker.delete(KEY)
    prune(broker)
    assert bounds(broker)[0] == 2
    broker.delete(OTHER)
    prune(broker)
    start, end = bounds(broker)
    assert start == end
    assert broker.initialize().error == ErrorCode.NONE


def test_what_is_left_after_pruning_makes_the_same_states() -> None:
    broker = ShareHarness((1, 2), updates_per_snapshot=2)
    initialized(broker, KEY, OTHER)
    for offset in range(0, 20, 2):
        broker.write(batch(offset, offset), key=(KEY, OTHER)[offset % 4 // 2], complete_count=offset)
    broker.commit()
    before = [(broker.summary(each).state, broker.read(each, leader_epoch=-1).state) for each in (KEY, OTHER)]
    prune(broker)
    assert bounds(broker)[0] > 0
    broker.commit()
    broker.move(2)
    assert [(broker.summary(each).state, broker.read(each, leader_epoch=-1).state) for each in (KEY, OTHER)] == before


def test_updates_whose_snapshot_was_deleted_are_skipped() -> None:
    """They are older than a later snapshot of their share partition."""
    broker = ShareHarness((1, 2), updates_per_snapshot=2)
    initialized(broker, OTHER, KEY)
    for _ in range(3):
        broker.write(batch(0, 0), key=OTHER)
    broker.commit()
    kinds = [type(each).__name__ for each in broker.logged(OTHER)]
    assert kinds == [
        "ShareSnapshotValue",
        "ShareUpdateValue",
        "ShareUpdateValue",
        "ShareSnapshotValue",
        "ShareUpdateValue",
    ]
    broker.partition(PARTITION).log.advance_log_start(1)  # as another share partition's snapshot at 1 would have it
    assert len(broker.logged(OTHER)) == 4
    broker.move(2)
    assert broker.read(OTHER, leader_epoch=-1).state.batches == (batch(0, 0),)
    assert KEY in broker.states


def test_nothing_is_deleted_before_the_snapshots_are_committed() -> None:
    """A snapshot that only this broker has may be lost, and then the one before it is needed."""
    broker = ShareHarness((1, 2), updates_per_snapshot=0)
    initialized(broker)
    broker.write(batch(0, 0))
    prune(broker)
    assert bounds(broker)[0] == 0
    broker.commit()
    assert bounds(broker) == (2, 3)


def test_nothing_is_deleted_by_a_broker_that_has_lost_the_partition_meanwhile() -> None:
    broker = ShareHarness((1, 2), updates_per_snapshot=0)
    initialized(broker)
    broker.write(batch(0, 0))
    prune(broker)
    broker.elect(2, 1)
    broker.work()
    assert bounds(broker)[0] == 0
    assert prune(broker) == 0


# --- old snapshots ---


def test_an_old_snapshot_with_updates_is_made_anew() -> None:
    broker = ShareHarness()
    initialized(broker)
    broker.write(batch(0, 4), complete_count=5)
    before = broker.snapshots()[-1]
    broker.advance_ms(LONG_MS - 1)
    snapshot(broker)
    assert len(broker.snapshots()) == 1
    broker.advance_ms(1)
    snapshot(broker)
    made = broker.snapshots()[-1]
    assert (made.snapshot_epoch, made.state_batches, made.delivery_complete_count) == (1, [batch(0, 4)], 5)
    assert made.create_timestamp_ms == before.create_timestamp_ms
    assert made.write_timestamp_ms == broker.clock.wall_ms()
    prune(broker)
    assert broker.logged() == [made]


def test_an_idle_share_partition_does_not_hold_the_records_of_others() -> None:
    broker = ShareHarness(updates_per_snapshot=0)
    initialized(broker, OTHER, KEY)
    broker.advance_ms(LONG_MS)
    snapshot(broker)
    for offset in range(10):
        broker.write(batch(offset, offset))
    prune(broker)
    held = bounds(broker)[0]
    broker.advance_ms(LONG_MS)
    snapshot(broker)
    prune(broker)
    assert bounds(broker)[0] > held
    assert bounds(broker)[1] - bounds(broker)[0] <= 3


def test_share_partitions_that_are_all_idle_are_not_written_for_ever() -> None:
    broker = ShareHarness()
    initialized(broker, KEY, OTHER)
    for _ in range(3):
        broker.advance_ms(LONG_MS)
        snapshot(broker)
    end = bounds(broker)[1]
    for _ in range(3):
        broker.advance_ms(LONG_MS)
        snapshot(broker)
    assert bounds(broker)[1] == end


def test_many_snapshots_are_made_in_steps_and_in_batches_that_the_partition_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep_module, "SLICE", 5 * upkeep_module.RECORD_COST)
    monkeypatch.setattr(long_work, "SLICE", 5 * upkeep_module.RECORD_COST)
    broker = ShareHarness(updates_per_snapshot=0)
    broker.set_state_topic(state_topic_of(300))
    keys = [SharePartitionKey(f"group-{number}", ORDERS_ID, 0) for number in range(12)]
    for key in keys:
        broker.initialize(key)
        broker.initialize(key, state_epoch=2)
        broker.initialize(key, state_epoch=3)
    broker.advance_ms(LONG_MS)
    assert snapshot(broker) >= 3
    assert [broker.kept(key).snapshot_epoch for key in keys] == [3] * 12
    prune(broker)
    start, end = bounds(broker)
    assert end - start == 12


def state_topic_of(max_message_bytes: int) -> Any:
    made = state_topic()
    return topic(
        made.name, replicas=(1,), cleanup_policy="delete", retention_ms="-1", max_message_bytes=str(max_message_bytes)
    )


# --- topics that are gone ---


def test_states_of_deleted_topics_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_module, "SLICE", 1)
    broker = ShareHarness()
    initialized(broker, KEY, OTHER)
    prune(broker)
    assert set(broker.states) == {KEY, OTHER}
    broker.delete_orders()
    prune(broker)
    assert (dict(broker.states), broker.logged()) == ({}, [])


def test_a_failed_deletion_of_records_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    broker = ShareHarness((1, 2), updates_per_snapshot=0)
    initialized(broker)
    broker.write(batch(0, 0))
    broker.commit()
    prune(broker)
    broker.advance_ms(broker.config.write_timeout_ms + 1)
    assert broker.shares.upkeep.pruned_count == 0, "the follower has not deleted its records"
    assert bounds(broker)[0] == 2
