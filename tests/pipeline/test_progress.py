"""The progress of a stream, with a fake of the brokers' metadata and a clock that the tests move."""

from __future__ import annotations

import json
from typing import Any

import pytest

from purgatorio.pipeline.offsets import DataLoss, OffsetRange, Offsets, TopicPartition
from purgatorio.pipeline.options import Position, ReadOptions, read_options
from purgatorio.pipeline.progress import DISCOVERY_SECONDS, IDLE_SECONDS, UNRESOLVED, Progress

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class FakeTopics:
    """A fake of the brokers' metadata: partitions with their earliest and latest offsets."""

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
    """A stream whose batches are run one by one, as Spark does."""

    def __init__(self, topics: FakeTopics, **options: str) -> None:
        given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingOffsets": "earliest", **options}
        self.options = read_options(given, streaming=True)
        self.topics = topics
        self.now = 100.0
        self.restart()
        self.start = self.progress.initial()

    def restart(self) -> None:
        """Restart from the checkpoint."""
        self.progress = Progress(self.options, self.topics, lambda: self.now)

    def end(self) -> dict[str, Any]:
        """Return the end of the next batch, after all caches have expired."""
        self.now += max(DISCOVERY_SECONDS, IDLE_SECONDS)
        return self.progress.next_end(
            self.start,
            at_most_records=self.options.max_offsets_per_trigger,
            wait_for_more=self.options.min_offsets_per_trigger is not None,
        )

    def batch(self) -> list[OffsetRange] | None:
        """Return the ranges that the next batch reads, or None if there is no batch."""
        end = json.loads(json.dumps(self.end()))
        if end == self.start:
            return None
        ranges = self.progress.ranges(self.start, end)
        self.start = end
        return ranges


def test_a_stream_reads_existing_records_and_then_new_ones() -> None:
    topics = FakeTopics(a0=(2, 5), a1=(0, 0))
    stream = Stream(topics)
    assert stream.batch() == [OffsetRange("a", 0, 2, 5)]
    assert stream.batch() is None
    topics.logs[A1][1] = 3
    assert stream.batch() == [OffsetRange("a", 1, 0, 3)]


def test_the_initial_offsets_stay_even_if_retention_deletes_records_between_two_calls() -> None:
    topics = FakeTopics(a0=(2, 5))
    progress = Stream(topics).progress
    first = progress.initial()
    topics.logs[A0][0] = 4
    assert progress.initial() == first


def test_latest_is_resolved_once_even_if_the_first_batch_fails_and_records_come_before_the_restart() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics, startingOffsets="latest")
    resolved = stream.end()  # Spark writes it to the checkpoint before it runs the batch, which then fails
    topics.logs[A0][1] = 9
    stream.restart()
    assert stream.progress.initial() == UNRESOLVED
    assert stream.progress.ranges(UNRESOLVED, resolved) == []
    stream.start = resolved
    assert stream.batch() == [OffsetRange("a", 0, 5, 9)]


def test_a_restart_before_the_first_checkpoint_resolves_latest_again() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics, startingOffsets="latest")
    assert stream.start == UNRESOLVED
    topics.logs[A0][1] = 7
    assert stream.batch() == []
    topics.logs[A0][1] = 8
    assert stream.batch() == [OffsetRange("a", 0, 7, 8)]


def test_a_start_at_a_timestamp_is_resolved_once_too() -> None:
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


def test_batches_are_limited_and_every_partition_advances() -> None:
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


def test_few_records_wait_for_more_up_to_the_maximal_delay() -> None:
    topics = FakeTopics(a0=(0, 10))
    stream = Stream(topics, minOffsetsPerTrigger="100", maxTriggerDelay="60s")
    assert stream.batch() is None
    topics.logs[A0][1] = 100
    assert stream.batch() == [OffsetRange("a", 0, 0, 100)]
    topics.logs[A0][1] = 101
    assert stream.batch() is None
    stream.now += 60
    assert stream.batch() == [OffsetRange("a", 0, 100, 101)]


def test_available_now_ends_at_the_latest_offsets_of_its_start() -> None:
    topics = FakeTopics(a0=(0, 10))
    stream = Stream(topics, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="6")
    stream.progress.stop_at_present_end()
    topics.logs[A0][1] = 1000
    topics.logs[A1] = [0, 5]
    assert stream.batch() == [OffsetRange("a", 0, 0, 6)]
    assert stream.batch() == [OffsetRange("a", 0, 6, 10)]
    assert stream.batch() is None


def test_an_idle_stream_rarely_asks_the_brokers() -> None:
    topics = FakeTopics(a0=(0, 10))
    stream = Stream(topics)
    assert stream.batch() is not None
    topics.asked.clear()
    for _ in range(1_000):  # ten seconds of Spark's polling
        stream.now += 0.01
        end = stream.progress.next_end(stream.start, at_most_records=None, wait_for_more=False)
        assert end == stream.start
    assert topics.asked.count("partitions") <= 11
    assert topics.asked.count("latest") <= 41
    assert topics.asked.count("earliest") == 0


def test_records_that_were_deleted_unread_stop_the_stream_if_fail_on_data_loss() -> None:
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


def test_a_topic_that_is_shorter_than_before_stops_the_stream_if_fail_on_data_loss() -> None:
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


def test_a_deleted_partition_stops_the_stream_if_fail_on_data_loss() -> None:
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


def test_a_deleted_partition_stops_the_stream_before_its_position_is_forgotten() -> None:
    topics = FakeTopics(a0=(0, 5), a1=(0, 5))
    stream = Stream(topics)
    assert stream.batch() is not None
    came_back = topics.logs.pop(A1)
    for available_now in (False, True):
        with pytest.raises(DataLoss, match="a-1 is gone"):
            stream.end()
        stream.restart()
        if available_now:
            stream.progress.stop_at_present_end()
    topics.logs[A1] = [came_back[0], 7]
    stream.restart()
    assert stream.batch() == [OffsetRange("a", 1, 5, 7)]


def test_available_now_starts_at_a_timestamp_that_is_found_after_its_end() -> None:
    stream = Stream(FakeTopics(a0=(0, 5), a1=(0, 20)))
    stream.options = read_options(
        {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingTimestamp": "7"}, streaming=True
    )
    stream.restart()
    stream.start = stream.progress.initial()
    stream.progress.stop_at_present_end()
    assert stream.batch() == []
    assert stream.batch() == [OffsetRange("a", 1, 7, 20)]
    assert stream.batch() is None


def test_the_latest_offsets_are_reported_even_if_batches_are_limited() -> None:
    stream = Stream(FakeTopics(a0=(0, 10), a1=(0, 0), a2=(0, 7)), maxOffsetsPerTrigger="3")
    assert stream.progress.reported is None
    assert stream.batch() is not None
    assert stream.progress.reported == {"a": {"0": 10, "1": 0, "2": 7}}


def test_a_topic_that_was_created_again_is_not_taken_for_the_one_that_was_read() -> None:
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
            with pytest.raises(DataLoss, match="a was deleted and created again: its unread records are lost"):
                stream.batch()
        else:
            assert stream.batch() == [OffsetRange("a", 0, 0, 9)]
            assert stream.batch() is None


def test_a_batch_that_was_planned_before_its_topic_was_created_again_is_not_read_from_the_new_one() -> None:
    for fail in ("true", "false"):
        topics = FakeTopics(a0=(0, 5))
        topics.topic_ids = {"a": "first"}
        stream = Stream(topics, failOnDataLoss=fail)
        planned = stream.end()
        topics.topic_ids = {"a": "second"}
        topics.logs[A0][:] = [0, 7]
        stream.restart()
        if fail == "true":
            with pytest.raises(DataLoss, match="a was deleted and created again"):
                stream.progress.ranges(stream.start, planned)
        else:
            assert stream.progress.ranges(stream.start, planned) == []
            stream.start = planned
            assert stream.batch() == [OffsetRange("a", 0, 0, 7)]


def test_a_checkpoint_without_topic_ids_can_be_continued() -> None:
    topics = FakeTopics(a0=(0, 5))
    stream = Stream(topics)
    assert stream.batch() == [OffsetRange("a", 0, 0, 5)]
    topics.topic_ids = {"a": "known now"}
    topics.logs[A0][1] = 6
    assert stream.batch() == [OffsetRange("a", 0, 5, 6)]
