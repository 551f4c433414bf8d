"""What a share coordinator answers, refuses, and writes into its topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.state import coordinator as coordinator_module
from purgatorio.broker.share.state.batches import MAX_BATCHES
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey, ShareSnapshotValue, ShareUpdateValue, StateBatch
from tests.broker.share.state.harness import (
    ACKED,
    ARCHIVED,
    AVAILABLE,
    KEY,
    ORDERS_ID,
    OTHER,
    Asked,
    ShareHarness,
    batch,
    initialized,
)

Ask = Callable[[ShareHarness, SharePartitionKey], Asked]
INITIALIZE: Ask = lambda broker, key: broker.initialize(key)  # noqa: E731
READ: Ask = lambda broker, key: broker.read(key)  # noqa: E731
WRITE: Ask = lambda broker, key: broker.write(key=key)  # noqa: E731
DELETE: Ask = lambda broker, key: broker.delete(key)  # noqa: E731
SUMMARY: Ask = lambda broker, key: broker.summary(key)  # noqa: E731
ALL = pytest.mark.parametrize(
    "ask", [INITIALIZE, READ, WRITE, DELETE, SUMMARY], ids=["init", "read", "write", "delete", "summary"]
)


# --- what is kept ---


def test_a_state_begins_without_a_start_offset_which_the_leader_chooses() -> None:
    broker = ShareHarness()
    assert broker.initialize(state_epoch=3).error == ErrorCode.NONE
    assert broker.read(leader_epoch=5).state == ShareState(3, 5, -1)
    assert broker.write(state_epoch=3, leader_epoch=5, start_offset=40).error == ErrorCode.NONE
    assert broker.read(leader_epoch=5).state == ShareState(3, 5, 40)
    assert broker.summary().state == ShareState(3, 5, 40, 0)


def test_writes_are_merged_and_the_start_offset_moves_over_them() -> None:
    broker = ShareHarness()
    initialized(broker)
    broker.write(batch(0, 9, AVAILABLE), complete_count=0)
    broker.write(batch(3, 4, ACKED), batch(7, 7, ARCHIVED), complete_count=3)
    assert broker.read().state.batches == (
        batch(0, 2, AVAILABLE),
        batch(3, 4, ACKED),
        batch(5, 6, AVAILABLE),
        batch(7, 7, ARCHIVED),
        batch(8, 9, AVAILABLE),
    )
    broker.write(batch(5, 6, ACKED), start_offset=5, complete_count=3)
    state = broker.read().state
    assert (state.start_offset, state.batches) == (5, (batch(5, 6), batch(7, 7, ARCHIVED), batch(8, 9, AVAILABLE)))
    assert broker.summary().state.delivery_complete_count == 3


def test_a_write_without_a_start_offset_leaves_it() -> None:
    broker = ShareHarness()
    initialized(broker)
    broker.write(batch(7, 8), start_offset=5)
    broker.write(batch(9, 9), start_offset=-1)
    assert broker.read().state == ShareState(1, 0, 5, batches=(batch(7, 9),))


def test_a_late_write_moves_neither_the_start_offset_nor_its_count_back() -> None:
    broker = ShareHarness()
    initialized(broker)
    broker.write(start_offset=9, complete_count=2)
    broker.write(batch(4, 4), batch(10, 10, AVAILABLE), start_offset=3, complete_count=7)
    assert broker.summary().state == ShareState(1, 0, 9, 2)
    assert broker.read().state.batches == (batch(10, 10, AVAILABLE),)


def test_the_complete_count_of_a_start_offset_never_falls_but_may_become_unknown() -> None:
    """KIP-1226: a leader of before does not tell it."""
    broker = ShareHarness()
    initialized(broker)
    for count, told in ((4, 4), (3, 4), (5, 5), (-1, -1), (2, 2)):
        broker.write(complete_count=count)
        assert broker.summary().state.delivery_complete_count == told


def test_a_state_that_no_leader_has_read_has_leader_epoch_0() -> None:
    broker = ShareHarness()
    broker.initialize(start_offset=3)
    assert broker.summary().state == ShareState(1, 0, 3, 0)


def test_a_state_that_is_not_initialized_is_summed_up_as_one_without_a_start_offset() -> None:
    assert ShareHarness().summary().state == ShareState(0, 0, -1, -1)


def test_a_new_state_takes_the_place_of_the_older_one_and_keeps_the_leaders_out_that_were_fenced() -> None:
    """In Kafka the fence is lost when the coordinator moves."""
    broker = ShareHarness()
    initialized(broker)
    broker.read(leader_epoch=4)
    broker.write(batch(0, 9), leader_epoch=4)
    assert broker.initialize(state_epoch=2, start_offset=7).error == ErrorCode.NONE
    assert broker.summary().state == ShareState(2, 4, 7, 0)
    assert broker.read(leader_epoch=3).error == ErrorCode.FENCED_LEADER_EPOCH
    assert broker.read(leader_epoch=4).state.batches == ()


def test_an_initialization_that_comes_again_does_not_begin_anew() -> None:
    broker = ShareHarness()
    broker.initialize(state_epoch=3)
    broker.write(batch(1, 2), state_epoch=3, start_offset=1)
    count = len(broker.logged())
    assert broker.initialize(state_epoch=3).error == ErrorCode.NONE
    assert (broker.summary().state.start_offset, len(broker.logged()) - count) == (1, 0)
    assert broker.initialize(state_epoch=3, start_offset=8).error == ErrorCode.NONE
    assert broker.summary().state.start_offset == 8


def test_a_deleted_state_is_not_initialized_and_deleting_it_again_is_no_error() -> None:
    broker = ShareHarness()
    initialized(broker)
    assert broker.delete().error == ErrorCode.NONE
    assert broker.logged()[-1] is None
    assert broker.read().error == ErrorCode.INVALID_REQUEST
    assert broker.delete().error == ErrorCode.NONE
    assert broker.logged().count(None) == 1


def test_share_partitions_are_apart() -> None:
    broker = ShareHarness()
    initialized(broker, KEY, OTHER)
    broker.write(batch(0, 9))
    broker.delete(OTHER)
    assert broker.read().state.batches == (batch(0, 9),)


# --- records ---


def test_changes_are_updates_until_there_are_enough_then_a_snapshot() -> None:
    broker = ShareHarness(updates_per_snapshot=3)
    broker.initialize(start_offset=0)
    for offset in range(5):
        broker.write(batch(offset, offset), complete_count=offset)
    kinds = [type(each).__name__ for each in broker.logged()]
    assert kinds == ["ShareSnapshotValue"] + ["ShareUpdateValue"] * 3 + ["ShareSnapshotValue", "ShareUpdateValue"]
    snapshot, update = broker.logged()[-2:]
    assert isinstance(snapshot, ShareSnapshotValue)
    assert isinstance(update, ShareUpdateValue)
    assert (snapshot.snapshot_epoch, snapshot.state_batches, snapshot.delivery_complete_count) == (1, [batch(0, 3)], 3)
    assert (update.snapshot_epoch, update.state_batches) == (1, [batch(4, 4)])


def test_without_updates_every_change_is_a_snapshot() -> None:
    broker = ShareHarness(updates_per_snapshot=0)
    broker.initialize(start_offset=0)
    broker.write(batch(0, 0))
    broker.write(batch(1, 1))
    assert [each.snapshot_epoch for each in broker.snapshots()] == [0, 1, 2]
    assert broker.snapshots()[-1].state_batches == [batch(0, 1)]


def test_a_newer_leader_is_written_down_when_it_reads() -> None:
    broker = ShareHarness()
    broker.initialize()
    for epoch, records in ((0, 2), (0, 2), (-1, 2), (3, 3)):
        assert broker.read(leader_epoch=epoch).error == ErrorCode.NONE
        assert len(broker.logged()) == records
    update = broker.logged()[-1]
    assert isinstance(update, ShareUpdateValue)
    assert (update.leader_epoch, update.start_offset) == (3, -1)


def test_snapshots_tell_when_they_were_made() -> None:
    broker = ShareHarness()
    broker.initialize()
    (snapshot,) = broker.snapshots()
    now_ms = broker.clock.wall_ms()
    assert (snapshot.create_timestamp_ms, snapshot.write_timestamp_ms) == (now_ms, now_ms)


# --- refusals ---


@ALL
def test_not_coordinator(ask: Ask) -> None:
    broker = ShareHarness()
    broker.elect(2, 1)
    assert ask(broker, KEY).error == ErrorCode.NOT_COORDINATOR


@ALL
def test_coordinator_not_available(ask: Ask) -> None:
    """There is no topic of states yet."""
    broker = ShareHarness()
    broker.set_state_topic()
    assert ask(broker, KEY).error == ErrorCode.COORDINATOR_NOT_AVAILABLE


@ALL
def test_coordinator_load_in_progress(ask: Ask) -> None:
    broker = ShareHarness((1, 2))
    initialized(broker)
    broker.elect(2, 1)
    broker.elect(1, 2)
    assert ask(broker, KEY).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("ask", [INITIALIZE, DELETE, SUMMARY], ids=["init", "delete", "summary"])
@pytest.mark.parametrize(
    "key",
    [SharePartitionKey("billing", b"?" * 16, 0), SharePartitionKey("billing", ORDERS_ID, 2)],
    ids=["topic", "partition"],
)
def test_unknown_topic_or_partition(ask: Ask, key: SharePartitionKey) -> None:
    assert ask(ShareHarness(), key).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("ask", [READ, WRITE], ids=["read", "write"])
def test_unknown_topic_or_partition_of_a_state_whose_topic_was_deleted(ask: Ask) -> None:
    broker = ShareHarness()
    initialized(broker)
    broker.delete_orders()
    assert ask(broker, KEY).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@ALL
def test_invalid_request_of_a_negative_partition(ask: Ask) -> None:
    broker = ShareHarness()
    assert ask(broker, SharePartitionKey("billing", ORDERS_ID, -1)).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("ask", [READ, WRITE], ids=["read", "write"])
def test_invalid_request_of_a_state_that_is_not_initialized(ask: Ask) -> None:
    answer = ask(ShareHarness(), KEY).answer
    assert (answer.error_code, answer.message) == (ErrorCode.INVALID_REQUEST, "The state is not initialized.")


@pytest.mark.parametrize(
    ("batches", "fields"),
    [
        ([], {"start_offset": -2}),
        ([], {"complete_count": -2}),
        ([batch(5, 4)], {}),
        ([batch(-1, 4)], {}),
        ([batch(0, 4, 1)], {}),
        ([batch(0, 4, 9)], {}),
        ([batch(0, 4, ACKED, -1)], {}),
        ([batch(0, 0)] * (MAX_BATCHES + 1), {}),
    ],
)
def test_invalid_request_of_a_write_that_cannot_be(batches: list[StateBatch], fields: dict[str, Any]) -> None:
    broker = ShareHarness()
    initialized(broker)
    before = broker.logged()
    assert broker.write(*batches, **fields).error == ErrorCode.INVALID_REQUEST
    assert broker.logged() == before


def test_invalid_request_of_a_start_offset_that_cannot_be() -> None:
    assert ShareHarness().initialize(start_offset=-2).error == ErrorCode.INVALID_REQUEST


def test_invalid_request_of_an_epoch_that_cannot_be() -> None:
    assert ShareHarness().initialize(state_epoch=-1).error == ErrorCode.INVALID_REQUEST


def test_invalid_request_of_more_batches_than_a_share_partition_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_module, "MAX_BATCHES", 3)
    broker = ShareHarness()
    initialized(broker)
    assert broker.write(batch(0, 9, AVAILABLE)).error == ErrorCode.NONE
    assert broker.write(batch(4, 4)).error == ErrorCode.NONE
    assert broker.write(batch(7, 7)).error == ErrorCode.INVALID_REQUEST
    assert broker.write(batch(5, 9)).error == ErrorCode.NONE, "this joins"


def test_fenced_state_epoch() -> None:
    broker = ShareHarness()
    broker.initialize(state_epoch=5)
    assert broker.initialize(state_epoch=4).error == ErrorCode.FENCED_STATE_EPOCH
    assert broker.write(state_epoch=4).error == ErrorCode.FENCED_STATE_EPOCH
    for epoch in (-1, 5, 6):
        assert broker.write(state_epoch=epoch).error == ErrorCode.NONE


def test_fenced_leader_epoch() -> None:
    broker = ShareHarness()
    broker.initialize()
    broker.read(leader_epoch=5)
    assert broker.read(leader_epoch=4).error == ErrorCode.FENCED_LEADER_EPOCH
    assert broker.write(leader_epoch=4).error == ErrorCode.FENCED_LEADER_EPOCH
    for epoch in (-1, 5, 6):
        assert broker.write(leader_epoch=epoch).error == ErrorCode.NONE


def test_policy_violation_of_more_share_partitions_than_a_partition_has() -> None:
    broker = ShareHarness(max_partitions=1)
    assert broker.initialize().error == ErrorCode.NONE
    assert broker.initialize(OTHER).error == ErrorCode.POLICY_VIOLATION
    assert broker.initialize(state_epoch=2).error == ErrorCode.NONE
    broker.delete()
    assert broker.initialize(OTHER).error == ErrorCode.NONE


def test_policy_violation_of_more_batches_than_a_broker_keeps() -> None:
    broker = ShareHarness(max_batches=4)
    initialized(broker, KEY, OTHER)
    assert broker.write(batch(0, 0), batch(2, 2)).error == ErrorCode.NONE
    assert broker.write(batch(0, 0), batch(2, 2), key=OTHER).error == ErrorCode.POLICY_VIOLATION
    broker.write(start_offset=2)
    assert broker.coordinator.batches.used == 1
    assert broker.write(batch(0, 0), key=OTHER).error == ErrorCode.NONE
    broker.delete(OTHER)
    assert broker.coordinator.batches.used == 1


def test_coordinator_not_available_if_the_replicas_do_not_confirm_in_time() -> None:
    broker = ShareHarness((1, 2))
    asked = broker.initialize()
    broker.advance_ms(broker.config.write_timeout_ms + 1)
    assert asked.error == ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- what a client sees is committed ---


def test_a_change_is_answered_when_the_replicas_have_it() -> None:
    broker = ShareHarness((1, 2))
    asked = [broker.initialize(), broker.write(batch(0, 0)), broker.delete()]
    assert not any(each.answered for each in asked)
    broker.commit()
    assert [each.error for each in asked] == [ErrorCode.NONE] * 3


@pytest.mark.parametrize(
    "ask",
    [READ, SUMMARY, INITIALIZE, lambda broker, _: broker.write(leader_epoch=0), lambda broker, _: broker.read(OTHER)],
    ids=["read", "summary", "repeated", "refused write", "refused read"],
)
def test_what_an_answer_tells_is_committed_before(ask: Ask) -> None:
    """A refusal, too: what it is about could be lost."""
    broker = ShareHarness((1, 2))
    broker.initialize()
    broker.commit()
    broker.read(leader_epoch=1)
    asked = ask(broker, KEY)
    assert not asked.answered
    broker.commit()
    assert asked.answered


def test_a_read_tells_what_was_written_before_it_and_no_more() -> None:
    broker = ShareHarness((1, 2))
    broker.initialize(start_offset=0)
    broker.write(batch(0, 0))
    first = broker.read(leader_epoch=-1)
    broker.write(batch(5, 5))
    broker.commit()
    assert first.state.batches == (batch(0, 0),)


def test_states_are_loaded_again_from_the_log() -> None:
    broker = ShareHarness((1, 2), updates_per_snapshot=2)
    broker.initialize(start_offset=0)
    broker.initialize(OTHER, state_epoch=7)
    broker.read(leader_epoch=3)
    for offset in range(4):
        broker.write(batch(offset * 2, offset * 2, count=offset + 1), leader_epoch=3, complete_count=offset)
    broker.commit()
    before = (broker.kept().snapshot_epoch, broker.kept().update_count, broker.kept().written_ms)
    told = broker.read(leader_epoch=-1).state, broker.summary().state, broker.summary(OTHER).state
    broker.move(2)
    after = broker.read(leader_epoch=-1).state, broker.summary().state, broker.summary(OTHER).state
    assert after == told
    assert (broker.kept().snapshot_epoch, broker.kept().update_count, broker.kept().written_ms) == before
    assert broker.read(leader_epoch=2).error == ErrorCode.FENCED_LEADER_EPOCH


def test_a_deleted_state_stays_deleted_after_a_move() -> None:
    broker = ShareHarness((1, 2))
    initialized(broker)
    broker.delete()
    broker.commit()
    broker.move(2)
    assert broker.read().error == ErrorCode.INVALID_REQUEST
    assert broker.coordinator.batches.used == 0


def test_a_new_leader_answers_when_what_it_loaded_is_committed() -> None:
    """Before that it could be lost."""
    broker = ShareHarness((1, 2))
    initialized(broker)
    broker.write(batch(0, 0))
    broker.elect(2, 1)
    broker.work()
    broker.elect(1, 2)
    broker.work()
    assert broker.read().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.commit()
    broker.work()
    assert broker.read(leader_epoch=-1).error == ErrorCode.NONE


def test_requests_that_wait_when_the_coordinator_moves_are_sent_elsewhere() -> None:
    broker = ShareHarness((1, 2))
    asked = broker.initialize(), broker.summary()
    broker.elect(2, 1)
    assert [each.error for each in asked] == [ErrorCode.NOT_COORDINATOR] * 2


def test_the_memory_of_a_shard_is_given_back_when_it_moves() -> None:
    broker = ShareHarness((1, 2))
    initialized(broker)
    broker.write(batch(0, 0), batch(2, 2))
    assert broker.coordinator.batches.used == 2
    broker.elect(2, 1)
    broker.work()
    assert broker.coordinator.batches.used == 0
