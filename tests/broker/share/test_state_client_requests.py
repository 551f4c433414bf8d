"""Calls about one group share a request to another broker."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.broker_calls import MAX_REQUESTS
from purgatorio.broker.share import state_client
from purgatorio.broker.share.state_client import MAX_PARTITIONS, MAX_READS, StateCalls
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from tests.broker.share.state_client_world import BILLS_ID, KEY, ORDERS_ID, Told, World, batch, states


def key(partition: int, group_id: str = "billing", topic_id: bytes = ORDERS_ID) -> SharePartitionKey:
    return SharePartitionKey(group_id, topic_id, partition)


def busy() -> World:
    """A world in which broker 2 has as many requests to write as it may."""
    world = World(states(2))
    for nth in range(MAX_REQUESTS):
        world.write(key=key(nth, "first"))
    assert len(world.sent) == MAX_REQUESTS
    return world


def test_the_first_calls_go_at_once_and_further_ones_share_the_next_request() -> None:
    world = busy()
    told = [world.write(key=key(each)) for each in range(5)]
    told.append(world.write(key=key(0, topic_id=BILLS_ID)))
    first, *_ = world.take()
    first.answer()
    sent = world.only()
    assert sent.keys == [*map(key, range(5)), key(0, topic_id=BILLS_ID)]
    assert [each.topic_id for each in sent.request.topics] == [ORDERS_ID, BILLS_ID]
    sent.answer(by_partition={1: ErrorCode.FENCED_STATE_EPOCH})
    assert [each.error for each in told] == [0, ErrorCode.FENCED_STATE_EPOCH, 0, 0, 0, 0]


def test_kinds_of_calls_have_requests_of_their_own() -> None:
    world = busy()
    world.delete()
    assert [sent.keys for sent in world.take()[MAX_REQUESTS:]] == [[KEY]]


def test_groups_take_turns() -> None:
    world = busy()
    waiting = world.take()
    for partition in range(2):
        for group_id in ("a", "b"):
            world.write(key=key(partition, group_id))
    world.write(key=key(0, "a"), leader_epoch=5)
    groups = []
    for each in waiting[:3]:
        each.answer()
        groups.append((world.sent[-1].request.group_id, len(world.sent[-1].keys)))
    assert groups == [("a", 2), ("b", 2), ("a", 1)]


def test_writes_about_a_share_partition_that_follow_each_other_are_one_entry() -> None:
    world = busy()
    told = [
        world.write(batch(9, 9), start_offset=5),
        world.write(batch(3, 3), batch(7, 7), start_offset=3),
        world.write(key=key(1)),
        world.write(start_offset=-1),
    ]
    world.take()[0].answer()
    sent = world.only()
    assert [entry.partition for entry in sent.entries] == [0, 1]
    entry = sent.entries[0]
    assert (entry.state_epoch, entry.leader_epoch, entry.start_offset) == (1, 4, 5)
    assert entry.state_batches == [batch(9, 9), batch(3, 3), batch(7, 7)]
    sent.answer(by_partition={0: ErrorCode.FENCED_LEADER_EPOCH})
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    assert [each.error for each in told] == [fenced, fenced, ErrorCode.NONE, fenced]


def test_joined_writes_tell_the_newest_start_offset_with_its_count() -> None:
    world = busy()
    for start_offset, complete_count in ((3, 1), (8, 2), (-1, 4), (5, 9), (8, 3)):
        world.write(start_offset=start_offset, complete_count=complete_count)
    world.take()[0].answer()
    (entry,) = world.only().entries
    assert (entry.start_offset, entry.delivery_complete_count) == (8, 3)


def test_writes_that_cannot_be_joined_go_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader epoch, or too many batches."""
    monkeypatch.setattr(state_client, "MAX_JOINED", 5)
    world = busy()
    waiting = world.take()
    told = [world.write(batch(0, 0)), world.write(batch(1, 1)), world.write(batch(2, 2))]
    told += [world.write(batch(3, 3), leader_epoch=5), world.write(batch(4, 4), leader_epoch=5)]
    for each in waiting[:3]:
        each.answer()
    sent = world.take()
    found = [[batches.first_offset for batches in each.entries[0].state_batches] for each in sent]
    assert found == [[0, 1], [2], [3, 4]]
    for each in sent:
        each.answer()
    assert [each.error for each in told] == [ErrorCode.NONE] * 5


def test_other_calls_about_a_share_partition_are_in_requests_of_their_own() -> None:
    world = World(states(2))
    told = [world.delete() for _ in range(MAX_REQUESTS + 2)]
    for expected in (MAX_REQUESTS, 2):
        sent = world.take()
        assert [each.keys for each in sent] == [[KEY]] * expected
        for each in sent:
            each.answer()
    assert [each.error for each in told] == [ErrorCode.NONE] * len(told)


@pytest.mark.parametrize("call", [World.read, World.write, World.delete])
def test_requests_have_a_limit(call: object) -> None:
    world = World(states(2))
    limit = MAX_READS if call is World.read else MAX_PARTITIONS

    def ask(partition: int) -> Told:
        where = key(partition)
        return {World.read: world.read, World.write: lambda each: world.write(key=each), World.delete: world.delete}[
            call  # type: ignore[index]
        ](where)

    told = [ask(each) for each in range(MAX_REQUESTS + limit + 1)]
    answered = 0
    while answered < len(told):
        for sent in world.take():
            assert len(sent.keys) <= limit
            answered += len(sent.keys)
            sent.answer()
    assert [each.error for each in told] == [ErrorCode.NONE] * len(told)


def test_large_writes_are_sent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateCalls, "max_weight", 4)
    world = busy()
    waiting = world.take()
    world.write(*(batch(2 * each, 2 * each) for each in range(9)), key=key(0))
    for partition in (1, 2, 3):
        world.write(batch(0, 0), key=key(partition))
    for each in waiting[:3]:
        each.answer()
    assert [[entry.partition for entry in sent.entries] for sent in world.take()] == [[0], [1, 2], [3]]


def test_requests_that_fail_at_once_do_not_begin_others_within() -> None:
    """`Peers.send` may call back before it returns: 600 requests must not nest."""
    world = World(states(2))
    for _ in range(600 + MAX_REQUESTS):
        world.delete()
    first, *_ = world.take()
    world.calls._ask = (  # type: ignore[method-assign]
        lambda broker_id, api_key, version, message, done: done(None, ConnectionResetError("lost"))
    )
    first.answer()
    assert world.purgatory.num_delayed == 600
