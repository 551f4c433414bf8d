"""Histories of topics: created, extended, described, configured, moved and deleted, rightly and wrongly.

An era is a version; each API is asked in the nearest one that it has.
"""

from __future__ import annotations

from typing import Any

from purgatorio.protocol.messages import alter_configs, incremental_alter_configs
from purgatorio.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from purgatorio.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from purgatorio.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from purgatorio.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from purgatorio.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from purgatorio.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from purgatorio.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from purgatorio.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.same_answers.talk import Talk

TOPIC_IDS_SINCE = 10
UNKNOWN_ID = bytes(15) + b"\7"
ZERO_ID = bytes(16)
BROKER, TOPIC = 4, 2
SET, DELETE, APPEND, SUBTRACT = range(4)
WRONG_NAMES = ("", ".", "..", "a/b", "ä", "x" * 250)


def _create(*topics: CreatableTopic, validate_only: bool = False, timeout_ms: int = 10_000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def _topic(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreatableTopic:
    assigned = fields.pop("assigned", None) or {}
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in assigned.items()
    ]
    configs = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in (fields.pop("configs", None) or {}).items()
    ]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=assignments, configs=configs
    )


def created(talk: Talk) -> None:
    """Topics that can be created, and those that cannot."""
    name = talk.group
    talk.ask("plain", _create(_topic(f"{name}-plain", 2)))
    talk.ask("again", _create(_topic(f"{name}-plain", 2)))
    for wrong in WRONG_NAMES:
        talk.ask(f"named {wrong[:5]!r}", _create(_topic(wrong)))
    for partitions in (0, -1, -2):
        talk.ask(f"{partitions} partitions", _create(_topic(f"{name}-count{partitions}", partitions)))
    for replicas in (0, -1, -2, 2):
        talk.ask(f"{replicas} replicas", _create(_topic(f"{name}-replicas{replicas}", replicas=replicas)))
    for step, assigned in (
        ("assigned", {0: [1], 1: [1]}),
        ("assigned to a stranger", {0: [9]}),
        ("assigned twice", {0: [1, 1]}),
        ("assigned to none", {0: []}),
        ("assigned with a gap", {0: [1], 2: [1]}),
        ("assigned from 1 on", {1: [1]}),
    ):
        topic = f"{name}-{step.replace(' ', '-')}"
        talk.ask(step, _create(_topic(topic, -1, -1, assigned=assigned)))
    talk.ask("assigned and counted", _create(_topic(f"{name}-both", 1, 1, assigned={0: [1]})))
    for configs in (
        {"retention_ms": "1000", "cleanup_policy": "compact,delete"},
        {"retention_ms": "x"},
        {"cleanup_policy": "none"},
        {"min_insync_replicas": "0"},
        {"no_such_config": "1"},
        {"retention_ms": None},
    ):
        step = " ".join(f"{key}={value}" for key, value in configs.items())
        topic = f"{name}-{step.replace('=', '-').replace(' ', '-').replace(',', '-')}"
        talk.ask(step, _create(_topic(topic, configs=configs)))
    talk.ask("twice", _create(_topic(f"{name}-twice"), _topic(f"{name}-twice"), _topic(f"{name}-once")))
    talk.ask("dots", _create(_topic(f"{name}.dots")))
    talk.ask("underscores", _create(_topic(f"{name}_dots")))
    talk.ask("internal", _create(_topic("__consumer_offsets")))
    talk.ask("validated", _create(_topic(f"{name}-validated", 3), _topic(f"{name}-plain"), validate_only=True))
    talk.ask("none", _create())


def told(talk: Talk) -> None:
    """Metadata of topics that there are, and that there are not."""
    topic = talk.new_topic("told", 2)

    def ask(step: str, *topics: MetadataRequestTopic, **fields: Any) -> None:
        talk.ask(step, MetadataRequest(topics=list(topics), allow_auto_topic_creation=False, **fields))

    ask("one", MetadataRequestTopic(name=topic))
    ask("operations", MetadataRequestTopic(name=topic), include_topic_authorized_operations=True)
    ask("operations of the cluster", MetadataRequestTopic(name=topic), include_cluster_authorized_operations=True)
    ask("twice", MetadataRequestTopic(name=topic), MetadataRequestTopic(name=topic))
    ask("unknown", MetadataRequestTopic(name="nowhere"))
    for wrong in WRONG_NAMES:
        ask(f"named {wrong[:5]!r}", MetadataRequestTopic(name=wrong))
    if talk.era > 0:
        ask("none")
    ask("internal", MetadataRequestTopic(name="__consumer_offsets"))
    if talk.era >= TOPIC_IDS_SINCE:
        known = talk.topic_ids[topic]
        ask("id", MetadataRequestTopic(name=None, topic_id=known))
        ask("unknown id", MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID))
        ask("zero id", MetadataRequestTopic(name=None, topic_id=ZERO_ID))
        ask("name and id", MetadataRequestTopic(name=topic, topic_id=known))
        ask("names and ids", MetadataRequestTopic(name="letters"), MetadataRequestTopic(name=None, topic_id=known))


def described(talk: Talk) -> None:
    """Partitions, page by page."""
    topic, other = talk.new_topic("pages", 3), talk.new_topic("pages-too")

    def ask(step: str, *names: str, **fields: Any) -> None:
        talk.ask(step, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names], **fields))

    ask("one", topic)
    ask("two", other, topic)
    ask("twice", topic, topic)
    ask("unknown", "nowhere", topic)
    for wrong in WRONG_NAMES:
        ask(f"named {wrong[:5]!r}", wrong)
    for limit in (0, -1, 1, 2, 3):
        ask(f"at most {limit}", topic, other, response_partition_limit=limit)
    for name, index in ((topic, 1), (topic, 9), (topic, -1), ("nowhere", 0), (other, 0)):
        step = f"from {name.rpartition('-')[2]} {index} on"
        ask(step, topic, other, cursor=Cursor(topic_name=name, partition_index=index))


def extended(talk: Talk) -> None:
    """Partitions that are added."""
    topic = talk.new_topic("grows")

    def ask(step: str, *topics: tuple[str, int], assigned: list[list[int]] | None = None, dry: bool = False) -> None:
        brokers = None if assigned is None else [CreatePartitionsAssignment(broker_ids=each) for each in assigned]
        asked = [CreatePartitionsTopic(name=name, count=count, assignments=brokers) for name, count in topics]
        talk.ask(step, CreatePartitionsRequest(topics=asked, timeout_ms=10_000, validate_only=dry))

    ask("two", (topic, 2))
    for count in (2, 1, 0, -1):
        ask(f"{count} of two", (topic, count))
    ask("unknown", ("nowhere", 2))
    ask("validated", (topic, 3), dry=True)
    ask("twice", (topic, 3), (topic, 4))
    ask("assigned", (topic, 3), assigned=[[1]])
    ask("assigned too many", (topic, 4), assigned=[[1], [1]])
    ask("assigned to a stranger", (topic, 4), assigned=[[9]])
    ask("assigned to two", (topic, 4), assigned=[[1, 2]])
    ask("assigned to none", (topic, 4), assigned=[[]])
    ask("none")


def removed(talk: Talk) -> None:
    """Topics that go, by name and by id."""
    topics = [talk.new_topic(f"goes-{number}") for number in range(4)]

    def ask(step: str, *names: str | None, ids: tuple[bytes, ...] = ()) -> None:
        states = [DeleteTopicState(name=name) for name in names] + [DeleteTopicState(topic_id=each) for each in ids]
        texts = [name for name in names if name is not None]
        talk.ask(step, DeleteTopicsRequest(topics=states, topic_names=texts, timeout_ms=10_000))

    ask("one", topics[0])
    ask("again", topics[0])
    ask("unknown", "nowhere")
    ask("no name", "")
    ask("twice", topics[1], topics[1], topics[2])
    ask("none")
    if talk.era >= 6:
        known = talk.topic_ids[topics[3]]
        both = [DeleteTopicState(name=topics[3], topic_id=known)]
        talk.ask("name and id", DeleteTopicsRequest(topics=both, timeout_ms=10_000))
        ask("neither", None)
        ask("unknown id", ids=(UNKNOWN_ID,))
        ask("the same by name and by id", topics[3], ids=(known,))
        ask("id", ids=(known,))


def configured(talk: Talk) -> None:
    """Configs of topics: described, changed, replaced."""
    topic = talk.new_topic("configs")
    keys = ["cleanup.policy", "retention.ms", "min.insync.replicas", "max.message.bytes"]

    def describe(step: str, name: str, *wanted: str, kind: int = TOPIC) -> None:
        of_one = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(wanted) if wanted else None
        )
        talk.ask(step, DescribeConfigsRequest(resources=[of_one], include_synonyms=True))

    def change(step: str, *changes: tuple[str, int, str | None], name: str = topic, kind: int = TOPIC) -> None:
        configs = [
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        talk.ask(step, incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))

    describe("before", topic, *keys)
    describe("unknown key", topic, "no.such.config")
    describe("unknown topic", "nowhere", *keys)
    describe("no topic", "", *keys)
    describe("unknown kind", topic, kind=9)
    change("set", ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact"))
    change("subtracted", ("cleanup.policy", SUBTRACT, "delete"))
    change("reset", ("retention.ms", DELETE, None))
    for key, operation, value in (
        ("retention.ms", SET, "x"),
        ("retention.ms", SET, None),
        ("retention.ms", APPEND, "1"),
        ("retention.ms", 9, "1"),
        ("cleanup.policy", APPEND, "none"),
        ("min.insync.replicas", SET, "0"),
        ("max.message.bytes", SET, "-1"),
        ("compression.type", SET, "brotli"),
        ("no.such.config", SET, "1"),
        ("", SET, "1"),
    ):
        change(f"{key} {operation} {value}", (key, operation, value))
    change("twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    change("of an unknown topic", ("retention.ms", SET, "1"), name="nowhere")
    change("of no topic", ("retention.ms", SET, "1"), name="")
    change("of an unknown kind", ("retention.ms", SET, "1"), kind=9)
    for value in ("2000", "x", None):
        given = [alter_configs.AlterableConfig(name="retention.ms", value=value)]
        resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=given)
        talk.ask(f"replaced by {value}", alter_configs.AlterConfigsRequest(resources=[resource]))


def moved(talk: Talk) -> None:
    """Elections and reassignments, where there is one broker."""
    topic = talk.new_topic("moves", 2)
    for kind in (0, 1, 9):
        for name, partitions in ((topic, [0, 1]), (topic, [9]), (topic, [0, 0]), ("nowhere", [0])):
            asked = [TopicPartitions(topic=name, partitions=partitions)]
            step = f"{kind}, {'here' if name == topic else name}, {partitions}"
            talk.ask(step, ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=10_000))
    talk.ask("none", ElectLeadersRequest(topic_partitions=[], timeout_ms=10_000))
    for index, replicas in (
        (0, [1]),
        (0, None),
        (0, []),
        (0, [1, 1]),
        (0, [9]),
        (0, [-1]),
        (0, [1, 2]),
        (9, [1]),
    ):
        one = [ReassignablePartition(partition_index=index, replicas=replicas)]
        of_topic = [ReassignableTopic(name=topic, partitions=one)]
        talk.ask(f"{index} to {replicas}", AlterPartitionReassignmentsRequest(topics=of_topic, timeout_ms=10_000))
    unknown = [ReassignableTopic(name="nowhere", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
    talk.ask("unknown topic", AlterPartitionReassignmentsRequest(topics=unknown, timeout_ms=10_000))
    talk.ask("none", AlterPartitionReassignmentsRequest(timeout_ms=10_000))
    for name, indexes in ((topic, [0, 1]), (topic, [9]), ("nowhere", [0])):
        listed = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)]
        step = f"{'here' if name == topic else name} {indexes}"
        talk.ask(step, ListPartitionReassignmentsRequest(topics=listed, timeout_ms=10_000))
    talk.ask("all", ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000))
    talk.ask("none", ListPartitionReassignmentsRequest(topics=[], timeout_ms=10_000))


HISTORIES = {
    created: range(2, 8),
    told: range(14),
    described: (0,),
    extended: range(4),
    removed: range(1, 7),
    configured: range(5),
    moved: range(3),
}
"""Each with its eras."""
