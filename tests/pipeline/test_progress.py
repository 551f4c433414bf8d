"""Where a stream reads next, with brokers that are a dictionary and a clock that is moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from purgatorio.pipeline.offsets import DataLoss, OffsetRange, Offsets, TopicPartition
from purgatorio.pipeline.options import Position, ReadOptions, read_options
from purgatorio.pipeline.progress import DISCOVERY_SECONDS, IDLE_SECONDS, UNRESOLVED, Progress

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class FakeTopics:
    """Partitions with their first offset and their end."""

    def __init__(self, **logs: tuple[int, int]) -> None:
        self.logs = {TopicPartition(name[0], int(name[1:])): list(log) for name, log in logs.items()}
        self.asked: list[str] = []
        self.topic_ids: dict[str, str] = {}

    def partitions(self, options: ReadOptions) -> list[TopicPartition]:
        self.asked.append("partitions")
        return sorted(self.logs)

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("earliest")
        return {tp: self.logs[tp][0] for tp in partitions}

    def latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("latest")
        return {tp: self.logs[tp][1] for tp in partitions}

    def by_timestamp(
        self, partitions: list[TopicPartition], position: Position, latest: Offsets
    ) -> dict[TopicPartition, int]:
        return {} if position.timestamp_ms is None else dict.fromkeys(partitions, position.timestamp_ms)


class Stream:
    """A stream whose batches are taken one by one, as Spark does it."""

    def __init__(self, topics: FakeTopics, **options: str) -> None:
        given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingOffsets": "earliest", **options}
        self.options = read_options(given, streaming=True)
        self.topics = topics
        self.now = 100.0
        self.restart()
        self.start = self.progress.initial()

    def restart(self) -> None:
        """Begin a new life, of which only the checkpoint is old."""
        self.progress = Progress(self.options, self.topics, lambda: self.now)

    def end(self) -> dict[str, Any]:
        """The end of the next batch; all that was cached is old by now."""
        self.now += max(DISCOVERY_SECONDS, IDLE_SECONDS)
        return self.progress.next_end(
            self.start,
            at_most_records=self.options.max_offsets_per_trigger,
            wait_for_more=self.options.min_offsets_per_trigger is not None,
        )

    def batch(self) -> list[OffsetRange] | None:
        """What the next batch reads; None: there is none."""
        end = json.loads(json.dumps(self.end()))
        if end == self.start:
            return None
        ranges = self.progress.ranges(self.start, end)
        self.start = end
        return ranges


def test_a_stream_reads_what_there_is_and_then_what_comes() -> None:
    topics = FakeTopics(a0=(2, 5), a1=(0, 0))
    stream = Stream(topics)
    assert stream.batch() == [OffsetRange("a", 0, 2, 5)]
    assert stream.batch() is None
    topics.logs[A1][1] = 3
    assert stream.batch() == [OffsetRange("a", 1, 0, 3)]


def test_the_initial_offsets_stay_though_retention_goes_on_between_two_questions() -> None:
    topics = FakeTopics(a0=(2, 5))
    progress = Stream(topics).progress
    first = progress.initial()
    topics.logs[A0][0] = 4
    assert progress.initial() == first


def test_latest_is_resolved_once_though_the_first_batch_fails_and_records_come_before_the_restart() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics, startingOffsets="latest")
    resolved = stream.end()  # Spark writes it down before it runs the batch, which then fails
    topics.logs[A0][1] = 9
    stream.restart()
    assert stream.progress.initial() == UNRESOLVED
    assert stream.progress.ranges(UNRESOLVED, resolved) == []
    stream.start = resolved
    assert stream.batch() == [OffsetRange("a", 0, 5, 9)]


def test_a_restart_before_anything_is_written_down_resolves_latest_anew() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics, startingOffsets="latest")
    assert stream.start == UNRESOLVED
    topics.logs[A0][1] = 7
    assert stream.batch() == []
    topics.logs[A0][1] = 8
    assert stream.batch() == [OffsetRange("a", 0, 7, 8)]


def test_a_start_at_a_time_is_resolved_once_too() -> None:
    options = read_options(
        {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingTimestamp": "1000"}, streaming=True
    )
    progress = Progress(options, FakeTopics(a0=(0, 5000)), lambda: 0.0)
    assert progress.initial() == UNRESOLVED
    assert progress.next_end(UNRESOLVED, at_most_records=1, wait_for_more=False) == {"a": {"0": 1000}}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics, startingOffsets="latest")
    assert stream.batch() == []
    topics.logs[A1] = [0, 4]
    assert stream.batch() == [OffsetRange("a", 1, 0, 4)]
    assert stream.batch() is None


def test_batches_are_limited_and_every_partition_gets_on() -> None:
    topics = FakeTopics(a0=(0, 1000), a1=(0, 10))
    stream = Stream(topics, maxOffsetsPerTrigger="100")
    read = {A0: 0, A1: 0}
    batches = 0
    while (ranges := stream.batch()) is not None:
        batches += 1
        assert sum(each.size for each in ranges) <= 102
        for each in ranges:
            tp = TopicPartition(each.topic, each.partition)
            assert each.start == read[tp]
            read[tp] = each.end
    assert read == {A0: 1000, A1: 10}
    assert batches == 10


def test_few_records_are_waited_with_but_not_for_longer_than_the_longest_delay() -> None:
    topics = FakeTopics(a0=(0, 10))
    stream = Stream(topics, minOffsetsPerTrigger="100", maxTriggerDelay="60s")
    assert stream.batch() is None
    topics.logs[A0][1] = 100
    assert stream.batch() == [OffsetRange("a", 0, 0, 100)]
    topics.logs[A0][1] = 101
    assert stream.batch() is None
    stream.now += 60
    assert stream.batch() == [OffsetRange("a", 0, 100, 101)]


def test_available_now_ends_where_the_topics_ended_when_it_began() -> None:
    topics = FakeTopics(a0=(0, 10))
    stream = Stream(topics, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="6")
    stream.progress.stop_at_what_there_is()
    topics.logs[A0][1] = 1000
    topics.logs[A1] = [0, 5]
    assert stream.batch() == [OffsetRange("a", 0, 0, 6)]
    assert stream.batch() == [OffsetRange("a", 0, 6, 10)]
    assert stream.batch() is None


def test_an_idle_stream_asks_seldom() -> None:
    topics = FakeTopics(a0=(0, 10))
    stream = Stream(topics)
    assert stream.batch() is not None
    topics.asked.clear()
    for _ in range(1_000):  # ten seconds of Spark's own polling
        stream.now += 0.01
        end = stream.progress.next_end(stream.start, at_most_records=None, wait_for_more=False)
        assert end == stream.start
    assert topics.asked.count("partitions") <= 11
    assert topics.asked.count("latest") <= 41
    assert topics.asked.count("earliest") == 0


def test_records_that_went_away_unread_stop_the_stream_unless_it_may_lose_some() -> None:
    for fail, expected in (("true", None), ("false", [OffsetRange("a", 0, 7, 9)])):
        topics = FakeTopics(a0=(0, 5))
        stream = Stream(topics, failOnDataLoss=fail)
        assert stream.batch() == [OffsetRange("a", 0, 0, 5)]
        topics.logs[A0][:] = [7, 9]
        if expected is None:
            with pytest.raises(DataLoss, match="offsets 5 to 6 were deleted before they were read"):
                stream.batch()
        else:
            assert stream.batch() == expected


def test_a_topic_that_was_made_anew_stops_the_stream_unless_it_may_lose_some() -> None:
    for fail in ("true", "false"):
        topics = FakeTopics(a0=(0, 5))
        stream = Stream(topics, failOnDataLoss=fail)
        assert stream.batch() == [OffsetRange("a", 0, 0, 5)]
        topics.logs[A0][:] = [0, 2]
        if fail == "true":
            with pytest.raises(DataLoss, match="a-0 ends at offset 2, though it was read up to 5"):
                stream.batch()
        else:
            assert stream.batch() == []
            topics.logs[A0][1] = 3
            assert stream.batch() == [OffsetRange("a", 0, 2, 3)]


def test_a_partition_that_is_gone_stops_the_stream_unless_it_may_lose_some() -> None:
    for fail in ("true", "false"):
        topics = FakeTopics(a0=(0, 5), a1=(0, 5))
        stream = Stream(topics, failOnDataLoss=fail)
        end = stream.end()
        del topics.logs[A1]
        stream.now += DISCOVERY_SECONDS
        if fail == "true":
            with pytest.raises(DataLoss, match="a-1 is gone"):
                stream.progress.ranges(stream.start, end)
        else:
            assert stream.progress.ranges(stream.start, end) == [OffsetRange("a", 0, 0, 5)]
            stream.start = end
            assert stream.batch() == []
            assert stream.batch() is None


def test_a_partition_that_is_gone_stops_the_stream_before_its_position_is_forgotten() -> None:
    topics = FakeTopics(a0=(0, 5), a1=(0, 5))
    stream = Stream(topics)
    assert stream.batch() is not None
    came_back = topics.logs.pop(A1)
    for available_now in (False, True):
        with pytest.raises(DataLoss, match="a-1 is gone"):
            stream.end()
        stream.restart()
        if available_now:
            stream.progress.stop_at_what_there_is()
    topics.logs[A1] = [came_back[0], 7]
    stream.restart()
    assert stream.batch() == [OffsetRange("a", 1, 5, 7)]


def test_available_now_starts_at_a_time_that_is_found_behind_where_the_topics_ended() -> None:
    stream = Stream(FakeTopics(a0=(0, 5), a1=(0, 20)))
    stream.options = read_options(
        {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingTimestamp": "7"}, streaming=True
    )
    stream.restart()
    stream.start = stream.progress.initial()
    stream.progress.stop_at_what_there_is()
    assert stream.batch() == []
    assert stream.batch() == [OffsetRange("a", 1, 7, 20)]
    assert stream.batch() is None


def test_how_far_the_topics_go_is_reported_though_batches_are_limited() -> None:
    stream = Stream(FakeTopics(a0=(0, 10), a1=(0, 0), a2=(0, 7)), maxOffsetsPerTrigger="3")
    assert stream.progress.reported is None
    assert stream.batch() is not None
    assert stream.progress.reported == {"a": {"0": 10, "1": 0, "2": 7}}


def test_a_topic_that_was_made_anew_is_not_taken_for_the_one_that_was_read() -> None:
    for fail in ("true", "false"):
        topics = FakeTopics(a0=(0, 5))
        topics.topic_ids = {"a": "first"}
        stream = Stream(topics, failOnDataLoss=fail)
        assert stream.batch() == [OffsetRange("a", 0, 0, 5)]
        assert stream.batch() is None
        topics.topic_ids = {"a": "second"}
        topics.logs[A0][:] = [0, 9]
        stream.restart()
        if fail == "true":
            with pytest.raises(DataLoss, match="a was made anew: what was not read of it before is lost"):
                stream.batch()
        else:
            assert stream.batch() == [OffsetRange("a", 0, 0, 9)]
            assert stream.batch() is None


def test_a_batch_that_was_planned_of_a_topic_that_is_made_anew_since_is_not_read_of_the_new_one() -> None:
    for fail in ("true", "false"):
        topics = FakeTopics(a0=(0, 5))
        topics.topic_ids = {"a": "first"}
        stream = Stream(topics, failOnDataLoss=fail)
        planned = stream.end()
        topics.topic_ids = {"a": "second"}
        topics.logs[A0][:] = [0, 7]
        stream.restart()
        if fail == "true":
            with pytest.raises(DataLoss, match="a was made anew"):
                stream.progress.ranges(stream.start, planned)
        else:
            assert stream.progress.ranges(stream.start, planned) == []
            stream.start = planned
            assert stream.batch() == [OffsetRange("a", 0, 0, 7)]


def test_a_checkpoint_without_ids_can_be_gone_on_from() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics)
    assert stream.batch() == [OffsetRange("a", 0, 0, 5)]
    topics.topic_ids = {"a": "known now"}
    topics.logs[A0][1] = 6
    assert stream.batch() == [OffsetRange("a", 0, 5, 6)]
