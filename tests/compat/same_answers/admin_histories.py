"""Histories of administration: configs of groups and brokers, features, log directories, the metadata's quorum."""

from __future__ import annotations

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages import alter_configs, incremental_alter_configs
from purgatorio.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from purgatorio.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from purgatorio.protocol.messages.list_config_resources import ListConfigResourcesRequest
from purgatorio.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.compat.same_answers.talk import Answer, Talk

ERAS = range(3)
BROKER, GROUP = 4, 32
SET, DELETE, APPEND = range(3)
SESSION, HEARTBEAT, RESET = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "share.auto.offset.reset",
)
Change = tuple[str, int, str | None]


def _change(kind: int, name: str, *changes: Change, validate_only: bool = False) -> Message:
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def _replace(kind: int, name: str, **configs: str | None) -> Message:
    given = [alter_configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    return alter_configs.AlterConfigsRequest(resources=[resource])


def _describe(kind: int, name: str, *keys: str) -> Message:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def _described(talk: Talk, step: str, **wanted: str) -> None:
    """Describe configs of the group once they are as wanted: Kafka's broker hears of changes after the answer."""

    def are_as_wanted(answer: Answer) -> bool:
        return {each.name: each.value for each in answer.results[0].configs} == wanted

    talk.until(step, lambda: _describe(GROUP, talk.group, *wanted), are_as_wanted)


def _listed(talk: Talk, step: str, count: int) -> None:
    """List the groups with configs once there are as many: Kafka's broker hears of changes after the answer."""
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    talk.until(step, lambda: request, lambda answer: len(answer.config_resources) == count, version=1)


def configs_of_a_group(talk: Talk) -> None:
    """They are set, described, listed, and stay when the group goes."""
    group = talk.group
    # Intervals between assignments have other defaults than Kafka's.
    names = [
        name
        for name in group_keys(BrokerConfig(broker_id=1))
        if not name.startswith(("consumer.assignment.", "share.assignment."))
    ]
    talk.ask("before", _describe(GROUP, group, *names))
    talk.ask("set", _change(GROUP, group, (SESSION, SET, "50000"), (RESET, SET, "by_duration:PT1H")))
    _described(talk, "set", **{SESSION: "50000", HEARTBEAT: "5000", RESET: "by_duration:PT1H"})
    talk.ask("two", _change(GROUP, group, (HEARTBEAT, SET, "6000"), (RESET, DELETE, None)))
    _described(talk, "two", **{SESSION: "50000", HEARTBEAT: "6000", RESET: "latest"})
    talk.ask("validated", _change(GROUP, group, (SESSION, SET, "55000"), validate_only=True))
    talk.ask("replaced", _replace(GROUP, group, share_isolation_level="read_committed"))
    _described(talk, "replaced", **{SESSION: "45000", "share.isolation.level": "read_committed"})
    talk.ask("no group", DeleteGroupsRequest(groups_names=[group]))
    _listed(talk, "still there", 1)
    talk.ask("all reset", _replace(GROUP, group))
    _listed(talk, "none", 0)


def refused_configs_of_a_group(talk: Talk) -> None:
    """Each value is beyond a bound, of another type, or none."""
    for name, value in (
        (SESSION, "44999"),
        (SESSION, "60001"),
        (SESSION, "x"),
        (SESSION, None),
        (HEARTBEAT, "4999"),
        (HEARTBEAT, "15001"),
        ("consumer.assignment.interval.ms", "15001"),
        ("share.session.timeout.ms", "44999"),
        ("share.heartbeat.interval.ms", "15001"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("share.renew.acknowledge.enable", "yes"),
        ("streams.num.standby.replicas", "3"),
        ("streams.session.timeout.ms", "1"),
        (RESET, "none"),
        (RESET, "by_duration:"),
        (RESET, "by_duration:P"),
        (RESET, "by_duration:1H"),
        ("no.such.config", "1"),
    ):
        talk.ask(f"{name}={value}", _change(GROUP, talk.group, (name, SET, value)))
    talk.ask("appended", _change(GROUP, talk.group, (SESSION, APPEND, "50000")))
    talk.ask("twice", _change(GROUP, talk.group, (SESSION, SET, "50000"), (SESSION, SET, "51000")))
    talk.ask("no name", _change(GROUP, "", (SESSION, SET, "50000")))
    talk.ask("no name", _describe(GROUP, ""))
    talk.ask("unknown reset", _change(GROUP, talk.group, ("no.such.config", DELETE, None)))
    talk.ask("replaced by an unknown", _replace(GROUP, talk.group, no_such_config="1"))
    talk.ask("replaced by null", _replace(GROUP, talk.group, share_isolation_level=None))


def configs_of_a_broker(talk: Talk) -> None:
    """What Kafka's brokers can change, though nothing here reads it; and what they cannot."""
    relogin = "sasl.kerberos.min.time.before.relogin"
    talk.ask("all brokers", _describe(BROKER, "", "min.insync.replicas"))
    talk.ask("checked", _change(BROKER, "1", (relogin, SET, "58000"), validate_only=True))
    talk.ask("for all brokers", _change(BROKER, "", (relogin, SET, "58000")))
    for name, value in (
        ("num.io.threads", "9"),
        ("num.io.threads", "0"),
        ("num.io.threads", "x"),
        ("log.cleaner.threads", "2"),
        ("log.flush.interval.messages", "5"),
        ("log.preallocate", "true"),
        ("compression.gzip.level", "-2"),
        ("remote.log.reader.threads", "0"),
        ("transaction.partition.verification.enable", "x"),
        ("unclean.leader.election.enable", "true"),
        ("node.id", "2"),
        ("auto.create.topics.enable", "true"),
        ("min.insync.replicas", "2"),
    ):
        talk.ask(f"{name}={value}", _change(BROKER, "1", (name, SET, value), validate_only=True))
    talk.ask("another broker", _change(BROKER, "99", ("num.io.threads", SET, "9")))
    talk.ask("another broker", _describe(BROKER, "99"))
    talk.ask("no id", _change(BROKER, "one", ("num.io.threads", SET, "9")))


def features(talk: Talk) -> None:
    """Levels that there are not, and those that are in use."""
    for name, level, kind in (
        ("transaction.version", 2, 1),
        ("transaction.version", 2, 2),
        ("transaction.version", 2, 3),
        ("transaction.version", 3, 1),
        ("transaction.version", 1, 1),
        ("transaction.version", -1, 1),
        ("transaction.version", 2, 9),
        ("group.version", 1, 1),
        ("group.version", 0, 1),
        ("group.version", 2, 1),
        ("no.such.feature", 1, 1),
        ("", 1, 1),
    ):
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=[update], validate_only=talk.version(57) > 0)
        talk.ask(f"{name} {level} {kind}", request)
    talk.ask("none", UpdateFeaturesRequest())


def log_dirs(talk: Talk) -> None:
    """No replica moves to a directory that is not there."""
    for path in ("/data", "relative", ""):
        topics = [
            AlterReplicaLogDirTopic(name="letters", partitions=[0, 1, 9]),
            AlterReplicaLogDirTopic(name="nowhere", partitions=[0]),
        ]
        talk.ask(f"'{path}'", AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]))
    twice = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="letters", partitions=[0])])
        for path in ("/data", "/more")
    ]
    talk.ask("twice", AlterReplicaLogDirsRequest(dirs=twice))
    talk.ask("none", AlterReplicaLogDirsRequest())


def quorum(talk: Talk) -> None:
    """Only partition 0 of the metadata has one."""
    metadata = "__cluster_metadata"
    for topic, partitions in (("letters", [0]), (metadata, [1]), (metadata, [0, 1]), (metadata, [])):
        asked = [DescribeQuorumRequestPartition(partition_index=index) for index in partitions]
        topics = [DescribeQuorumRequestTopic(topic_name=topic, partitions=asked)]
        talk.ask(f"{topic} {partitions}", DescribeQuorumRequest(topics=topics))
    talk.ask("none", DescribeQuorumRequest())


HISTORIES = (configs_of_a_group, refused_configs_of_a_group, configs_of_a_broker, features, log_dirs, quorum)
