"""Histories of topics with a tier (KIP-405): what is read and looked up there, what is deleted, and what is refused.

An era is a version; each API is asked in the nearest one that it has. A segment has one batch of three records: batches
are ten seconds apart by their timestamps, and segment.ms is shorter.
"""

from __future__ import annotations

from collections.abc import Mapping

from purgatorio.protocol.messages import alter_configs, incremental_alter_configs
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from purgatorio.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from purgatorio.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches
from tests.compat.same_answers.log_histories import START_MS, at, batch, fetch, fetch_topic, list_offsets, produce
from tests.compat.same_answers.talk import Answer, Talk

BATCH_MS = 10_000
BATCHES = 6
LAST_MS = START_MS + (BATCHES - 1) * BATCH_MS
BATCH_BYTES = len(batch(3))
TIERED = {
    "remote.storage.enable": "true",
    "segment.ms": "5000",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "local.retention.bytes": str(2 * BATCH_BYTES),
}
DISORDERED = {**TIERED, "segment.ms": "604800000", "segment.bytes": "1048576", "local.retention.bytes": "1200000"}
LATEST_TIERED_SINCE = 9
SPECIAL = (-1, -2, -3, -4, -5, -6, -7)
MOMENTS = (
    0,
    START_MS,
    START_MS + 2000,
    START_MS + 2001,
    START_MS + BATCH_MS,
    START_MS + BATCH_MS + 1000,
    START_MS + 2 * BATCH_MS + 1000,
    LAST_MS - 5000,
    LAST_MS,
    LAST_MS + 2001,
)
TOPIC = 2
REQUEST_TIMED_OUT = 7
SET, DELETE = 0, 1


def _tiered(talk: Talk, name: str) -> str:
    """A topic of six batches, of which the tier has five, and memory the last two."""
    topic = talk.new_topic(name, 1, TIERED)
    for number in range(BATCHES):
        talk.ask(f"batch {number}", produce(topic, (0, batch(3, at_ms=START_MS + number * BATCH_MS))))

    _await_copies(talk, topic, memory_from=12)
    return topic


def _await_copies(talk: Talk, topic: str, *, memory_from: int) -> None:
    """Wait until all closed segments are copied, and memory begins at an offset, before the last one of them."""

    def is_copied() -> bool:
        return memory_from == _offset(talk, topic, -4) and _offset(talk, topic, -5) > memory_from

    talk.until_true(is_copied)


def _offset(talk: Talk, topic: str, timestamp: int) -> int:
    answer = talk.ask("copied", list_offsets(topic, (0, timestamp)), record=False, version=LATEST_TIERED_SINCE)
    return int(answer.topics[0].partitions[0].offset)


def _specials(talk: Talk, step: str, topic: str) -> None:
    for timestamp in SPECIAL:
        _look_up(talk, f"{step}, at {timestamp}", topic, timestamp)


def _moments(talk: Talk, step: str, topic: str) -> None:
    for timestamp in MOMENTS:
        _look_up(talk, f"{step}, at {timestamp}", topic, timestamp)


def _look_up(talk: Talk, step: str, topic: str, timestamp: int) -> None:
    """Look up a timestamp; on a busy machine Kafka may not be told that its look-up has ended, and times out."""
    asked = list_offsets(topic, (0, timestamp), timeout_ms=10_000)
    talk.until(step, lambda: asked, lambda answer: answer.topics[0].partitions[0].error_code != REQUEST_TIMED_OUT)


def _read(talk: Talk, step: str, topic: str, offset: int, *, isolation_level: int = 0) -> Answer:
    """Fetch until there are records: a read may take longer than a fetch waits for it. Note the first batch."""

    def request() -> FetchRequest:
        wanted = [fetch_topic(talk, topic, at(offset))]
        return FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=wanted, isolation_level=isolation_level
        )

    answer = talk.until(step, request, lambda answer: bool(answer.responses[0].partitions[0].records))
    bases = [header.base_offset for header, _ in iter_batches(bytes(answer.responses[0].partitions[0].records))]
    talk.fields.append((f"Fetch, {step}: first batch", bases[0]))
    return answer


def _ask(talk: Talk, step: str, topic: str, wanted: FetchPartition) -> None:
    """Fetch once, whatever records come: a read of Kafka's ends where its segment does."""
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[fetch_topic(talk, topic, wanted)])
    talk.ask(step, request)


def read(talk: Talk) -> None:
    """Records in the tier, before and behind them."""
    topic = _tiered(talk, "read")
    for offset in (0, 1, 5, 11, 12, 14, 17):
        _read(talk, f"from {offset}", topic, offset)
    for offset in (-1, 18, 19):
        fetch(talk, f"from {offset}", fetch_topic(talk, topic, at(offset)))
    _read(talk, "committed", topic, 4, isolation_level=1)
    _ask(talk, "earlier epoch", topic, at(4, current_leader_epoch=5))
    _ask(talk, "unknown last epoch in the tier", topic, at(4, last_fetched_epoch=5))
    for epoch in (-1, 0, 5):
        asked = [OffsetForLeaderPartition(partition=0, leader_epoch=epoch)]
        topics = [OffsetForLeaderTopic(topic=topic, partitions=asked)]
        talk.ask(f"epoch {epoch}", OffsetForLeaderEpochRequest(replica_id=-2, topics=topics))
    asked = [DescribableLogDirTopic(topic=topic, partitions=[0])]
    talk.ask("size", DescribeLogDirsRequest(topics=asked))


def looked_up(talk: Talk) -> None:
    """Offsets, before and after records of the tier are deleted."""
    topic = _tiered(talk, "times")
    _specials(talk, "all", topic)
    _moments(talk, "all", topic)
    _delete(talk, "four", topic, 4)
    _specials(talk, "from four", topic)
    _moments(talk, "from four", topic)
    fetch(talk, "deleted", fetch_topic(talk, topic, at(3)))
    _read(talk, "not deleted", topic, 4)
    _delete(talk, "fewer", topic, 2)
    _delete(talk, "in memory", topic, 13)
    _specials(talk, "from memory", topic)
    _moments(talk, "from memory", topic)
    _delete(talk, "too many", topic, 19)
    _delete(talk, "all", topic, -1)
    _specials(talk, "nothing left", topic)
    fetch(talk, "nothing left", fetch_topic(talk, topic, at(17)))


def _delete(talk: Talk, step: str, topic: str, offset: int) -> None:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    talk.ask(step, DeleteRecordsRequest(topics=topics, timeout_ms=10_000))


def disordered(talk: Talk) -> None:
    """Timestamps that are not in order: a segment's highest one is of a record that is deleted."""
    topic = talk.new_topic("disordered", 1, DISORDERED)
    for number, times in enumerate(((9_000, 0), (1_000, 8_000), (2_000, 0), (0, 0))):
        records = [Record(each, START_MS + at_ms, None, b"v" * 300_000, ()) for each, at_ms in enumerate(times)]
        talk.ask(f"batch {number}", produce(topic, (0, build_batch(records))))
    _await_copies(talk, topic, memory_from=4)
    for step in ("all", "without the first"):
        for at_ms in (0, 500, 5_000, 8_500, 9_500):
            _look_up(talk, f"{step}, at {at_ms}", topic, START_MS + at_ms)
        _delete(talk, step, topic, 1)


ON = {"remote.storage.enable": "true"}
CREATED: tuple[dict[str, str], ...] = (
    ON,
    {**ON, "cleanup.policy": "compact"},
    {**ON, "cleanup.policy": "compact,delete"},
    {**ON, "cleanup.policy": ""},
    {**ON, "retention.ms": "1000", "local.retention.ms": "-1"},
    {**ON, "retention.ms": "1000", "local.retention.ms": "1000"},
    {**ON, "retention.ms": "1000", "local.retention.ms": "1001"},
    {**ON, "retention.ms": "-1", "local.retention.ms": "1001"},
    {**ON, "retention.bytes": "1000", "local.retention.bytes": "-1"},
    {**ON, "retention.bytes": "1000", "local.retention.bytes": "1001"},
    {**ON, "retention.bytes": "1000", "local.retention.bytes": "-2"},
    {**ON, "local.retention.ms": "-3"},
    {**ON, "local.retention.bytes": "-3"},
    {**ON, "local.retention.ms": "1000", "remote.copy.lag.ms": "1001"},
    {**ON, "local.retention.ms": "1000", "remote.copy.lag.ms": "1000"},
    {**ON, "local.retention.ms": "1000", "remote.copy.lag.ms": "-1"},
    {**ON, "local.retention.ms": "1000", "remote.copy.lag.ms": "-2"},
    {**ON, "local.retention.bytes": "1000", "remote.copy.lag.bytes": "1001"},
    {**ON, "local.retention.bytes": "1000", "remote.copy.lag.bytes": "1000"},
    {**ON, "remote.copy.lag.bytes": "-2"},
    {**ON, "remote.log.copy.disable": "true"},
    {**ON, "remote.log.copy.disable": "true", "retention.ms": "1000", "local.retention.ms": "500"},
    {**ON, "remote.log.copy.disable": "true", "retention.ms": "1000", "local.retention.ms": "1000"},
    {**ON, "remote.log.copy.disable": "true", "retention.bytes": "1000", "local.retention.bytes": "500"},
    {**ON, "remote.log.delete.on.disable": "true"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true"},
    {"retention.ms": "1000", "local.retention.ms": "1001"},
    {"local.retention.ms": "-1", "retention.ms": "1000"},
    {"remote.copy.lag.ms": "1001", "local.retention.ms": "1000"},
    {"remote.storage.enable": "maybe"},
    {"remote.storage.enable": "false"},
)
ALTERED: tuple[dict[str, str | None], ...] = (
    {"cleanup.policy": "compact"},
    {"local.retention.ms": "-1", "retention.ms": "1000"},
    {"local.retention.ms": "1000", "retention.ms": "1000"},
    {"retention.ms": "999"},
    {"remote.copy.lag.ms": "1001"},
    {"remote.copy.lag.ms": "500"},
    {"remote.log.copy.disable": "true"},
    {"local.retention.ms": "-2", "remote.log.copy.disable": "true"},
    {"remote.log.copy.disable": "false"},
    {"remote.storage.enable": "false"},
    {"remote.storage.enable": None},
    {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"},
    {"remote.storage.enable": "true"},
)
OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "false"}
REPLACED: dict[str, dict[str, str]] = {
    "leaves": {},
    "returns": ON,
    "leaves at once": {"remote.log.delete.on.disable": "true"},
}
DESCRIBED = (
    "remote.storage.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "local.retention.ms",
    "local.retention.bytes",
    "remote.copy.lag.ms",
    "remote.copy.lag.bytes",
)


def _shown(configs: Mapping[str, str | None]) -> str:
    return " ".join(f"{name}={value}" for name, value in configs.items())


def created(talk: Talk) -> None:
    """Topics that can have a tier, and those that cannot."""
    for number, configs in enumerate(CREATED):
        given = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        new = CreatableTopic(name=f"{talk.group}-{number}", num_partitions=1, replication_factor=1, configs=given)
        talk.ask(_shown(configs), CreateTopicsRequest(topics=[new], timeout_ms=10_000))


def configured(talk: Talk) -> None:
    """A topic with a tier whose configs change, at last so that it leaves it."""
    topic = talk.new_topic("configured", 1, ON)
    _described(talk, "new", topic, ON)
    for configs in ALTERED:
        changes = [
            incremental_alter_configs.AlterableConfig(
                name=name, config_operation=DELETE if value is None else SET, value=value
            )
            for name, value in configs.items()
        ]
        asked = [
            incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=changes)
        ]
        changed = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=asked)
        answer = talk.ask(_shown(configs), changed)
        _described(talk, _shown(configs), topic, {} if answer.responses[0].error_code else configs)
    for step, configs in REPLACED.items():
        rows = [alter_configs.AlterableConfig(name=name, value=value) for name, value in configs.items()]
        replaced = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=rows)
        answer = talk.ask(step, alter_configs.AlterConfigsRequest(resources=[replaced]))
        _described(talk, step, topic, {} if answer.responses[0].error_code else {**OFF, **configs})


def _described(talk: Talk, step: str, topic: str, expected: Mapping[str, str | None]) -> None:
    """Describe the topic when it has the configs that were set; a broker hears of them a moment later."""
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=list(DESCRIBED))

    def has_them(answer: Answer) -> bool:
        values = {each.name: each.value for each in answer.results[0].configs}
        return all(value is None or values.get(name, value) == value for name, value in expected.items())

    talk.until(step, lambda: DescribeConfigsRequest(resources=[resource]), has_them)


HISTORIES = {
    read: (4, 11, 12, 16, 18),
    looked_up: range(1, 12),
    disordered: (1, 11),
    created: (2, 5, 7),
    configured: (1, 4),
}
"""Each with its eras."""
