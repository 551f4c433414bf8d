"""What one event has read in one turn of the event loop is bounded."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.time import long_work
from purgatorio.purgatory import key_group
from tests.broker.replica.harness import Fetched, Harness, topic
from tests.compiled import replaces_functions

pytestmark = replaces_functions  # the fixture sets a constant, which compiled code has read already

PARTITIONS = [TopicPartition("wide", number) for number in range(20)]


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """Broker 1 leads a topic of twenty partitions alone; one event has 100 partitions read in a turn."""
    monkeypatch.setattr(key_group, "CHECKED_PER_TURN", 100)
    monkeypatch.setattr(long_work, "SLICE", 100 * key_group.KEY_COST)
    broker = Harness()
    broker.set_topics(topic("wide", partitions=20, isr=(1,)))
    return broker


def park(broker: Harness, count: int) -> list[Fetched]:
    return [broker.fetch(*((tp, 0) for tp in PARTITIONS), max_wait_ms=5_000) for _ in range(count)]


def test_a_record_that_many_fetches_wait_for_is_read_in_several_turns(wide: Harness) -> None:
    parked = park(wide, 30)
    wide.produce(PARTITIONS[3], acks=1)
    assert [each.answered for each in parked] == [True] * 5 + [False] * 25
    assert not any(each.could_complete() for each in wide.fetch_purgatory._parked.values())  # they are to be checked
    wide.produce(PARTITIONS[4], acks=1)
    wide.advance_ms(1)
    small, large = ({each.size_bytes for each in some} for some in (parked[:5], parked[5:]))
    assert 2 * min(small) == min(large) == max(large)  # the later ones have both records
    assert wide.fetch_purgatory.num_delayed == 0


def test_each_later_turn_reads_as_much(wide: Harness) -> None:
    parked = park(wide, 12)
    wide.produce(PARTITIONS[3], acks=1)
    for answered in (5, 10, 12):
        assert sum(each.answered for each in parked) == answered
        assert wide.long_work.turn() == (answered < 10)


def test_a_fetch_whose_time_is_over_before_its_turn_is_answered_once(wide: Harness) -> None:
    parked = park(wide, 30)
    wide.produce(PARTITIONS[3], acks=1)
    for timer in wide.all_timers():
        timer.advance(wide.clock.now_ms() + 10_000)
    assert all(each.answered for each in parked)
    wide.advance_ms(1)
    assert len({each.size_bytes for each in parked}) == 1


def test_followers_are_woken_at_once(wide: Harness) -> None:
    wide.set_topics(topic("wide", partitions=20, isr=(1,), partition_epoch=1))
    followers = [
        wide.fetch(*((tp, 0) for tp in PARTITIONS), replica_id=replica_id, max_wait_ms=5_000)
        for replica_id in (2, 3) * 8
    ]
    assert not any(each.answered for each in followers)
    wide.produce(PARTITIONS[3], acks=1)
    assert all(each.answered for each in followers)


def test_fetches_of_few_partitions_are_read_at_once(wide: Harness) -> None:
    parked = [wide.fetch((PARTITIONS[3], 0)) for _ in range(40)]
    wide.produce(PARTITIONS[3], acks=1)
    assert all(each.answered for each in parked)
