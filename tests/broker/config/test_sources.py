"""Reading settings: which source wins, which spellings are known, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.config.by_room import connection_limits, group_config
from purgatorio.broker.config.listeners import listener_configs
from purgatorio.broker.config.sources import ConfigError, load_cluster_config, parse_properties


def problems(**sources: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_cluster_config(**sources)  # type: ignore[arg-type]
    return caught.value.problems


def test_flags_win_over_assignments_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "purgatorio.toml"
    file.write_text("num_partitions = 1\nlog_roll_ms = 1\nfollower_delay_ms = 1\nlog_retention_ms = 1\n")
    environ = {"PURGATORIO_LOG_ROLL_MS": "2", "PURGATORIO_FOLLOWER_DELAY_MS": "2", "PURGATORIO_LOG_RETENTION_MS": "2"}
    shared = load_cluster_config(
        file=file,
        environ=environ,
        assignments=["follower_delay_ms=3", "log_retention_ms=0", "log_retention_ms=3"],
        flags={"follower_delay_ms": "4", "brokers": None},
    ).broker
    assert shared.num_partitions == 1
    assert shared.log_roll_ms == 2
    assert shared.log_retention_ms == 3
    assert shared.follower_delay_ms == 4


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("brokers = 2")
    assert load_cluster_config(environ={"PURGATORIO_CONFIG": str(file)}).brokers == 2


def test_kafkas_spelling_is_understood(tmp_path: Path) -> None:
    """Dots are as good as underscores, in tables too, and node.id is the broker's id."""
    file = tmp_path / "a.toml"
    file.write_text('log.retention.ms = 5\nnode.id = 3\n"min.insync.replicas" = 2\n[replica.fetch]\nbackoff_ms = 4\n')
    shared = load_cluster_config(file=file, assignments=["auto.create.topics.enable=false"]).broker
    assert (shared.log_retention_ms, shared.broker_id, shared.min_insync_replicas) == (5, 3, 2)
    assert shared.replica_fetch_backoff_ms == 4
    assert not shared.auto_create_topics_enable


def test_other_variables_of_the_environment_are_ignored() -> None:
    assert load_cluster_config(environ={"HOME": "/", "KAFKA_BROKERS": "9"}).brokers == 3


def test_unknown_settings_name_the_near_one_in_their_own_spelling(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("replica_fetch_wait_max = 1")
    assert problems(
        file=file, environ={"PURGATORIO_BROKRES": "1"}, assignments=["log.retention.mss=1", "zzz=1", "retention"]
    ) == (
        f"config file {file}: replica_fetch_wait_max is not a setting; did you mean replica_fetch_wait_max_ms?",
        "environment: PURGATORIO_BROKRES is not a setting; did you mean PURGATORIO_BROKERS?",
        "--set log.retention.mss is not a setting; did you mean log.retention.ms?",
        "--set zzz is not a setting",
        "--set retention: must look like key=value",
    )


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ("num_partitions=many", "must be a whole number, not 'many'"),
        ("num_partitions=0", "must be at least 1, not '0'"),
        ("log_cleaner_min_cleanable_ratio=half", "must be a number, not 'half'"),
        ("log_cleaner_min_cleanable_ratio=2", "must be at most 1.0, not '2'"),
        ("log_cleaner_enable=perhaps", "must be true or false, not 'perhaps'"),
        ("log_message_timestamp_type=Now", "must be CreateTime or LogAppendTime, not 'Now'"),
        ("rack=", "must not be empty, not ''"),
    ],
)
def test_bad_values_are_told_plainly(assignment: str, why: str) -> None:
    name = assignment.partition("=")[0]
    assert problems(assignments=[assignment]) == (f"--set {name} {why}",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('brokers = "3"', "brokers must be a whole number, not '3'"),
        ("brokers = true", "brokers must be a whole number, not True"),
        ("brokers = 2.5", "brokers must be a whole number, not 2.5"),
        ("log_cleaner_enable = 1", "log_cleaner_enable must be true or false, not 1"),
        ("rack = 1", "rack must be text, not 1"),
    ],
)
def test_a_file_is_typed(tmp_path: Path, line: str, why: str) -> None:
    """TOML has types of its own; text is no number there."""
    file = tmp_path / "a.toml"
    file.write_text(line)
    assert problems(file=file) == (f"config file {file}: {why}",)


def test_files_that_cannot_be_read_are_told_plainly(tmp_path: Path) -> None:
    assert problems(file=tmp_path / "none") == (f"config file {tmp_path / 'none'}: no such file or directory",)
    broken = tmp_path / "broken.toml"
    broken.write_text("brokers =")
    (line,) = problems(file=broken)
    assert line.startswith(f"config file {broken}: not valid TOML: ")
    assert "\n" not in line


def test_flags_are_named_as_typed() -> None:
    assert problems(flags={"follower_delay_ms": "soon"}) == ("--follower-delay-ms must be a whole number, not 'soon'",)


def test_values_that_do_not_go_together_are_one_line() -> None:
    assert problems(flags={"brokers": "2"}, assignments=["default_replication_factor=3"]) == (
        "default_replication_factor is 3, but the number of brokers is 2",
    )


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.minutes": "-1", "log.retention.hours": "1"}, -1),
        ({}, 604_800_000),
    ],
)
def test_retention_has_the_smallest_unit_that_is_set(given: dict[str, str], retention_ms: int) -> None:
    assert load_cluster_config(settings=given).broker.log_retention_ms == retention_ms


def test_the_smallest_unit_counts_wherever_it_is_set() -> None:
    """As in Kafka, by which all sources are one."""
    broker = load_cluster_config(environ={"PURGATORIO_LOG_ROLL_MS": "7"}, assignments=["log.roll.hours=1"]).broker
    assert broker.log_roll_ms == 7


def test_other_units() -> None:
    given = {"log.roll.hours": "1", "leader.imbalance.check.interval.seconds": "5"}
    broker = load_cluster_config(settings=given).broker
    assert (broker.log_roll_ms, broker.leader_imbalance_check_interval_ms) == (3_600_000, 5_000)


def test_no_time_at_all_is_refused_as_in_kafka() -> None:
    assert problems(assignments=["log.retention.hours=0"]) == (
        "log_retention_hours must be at least 1, or -1: for ever",
    )


def test_request_bytes_without_a_limit_are_a_share_of_the_memory() -> None:
    broker = load_cluster_config(assignments=["queued.max.request.bytes=-1", "memory.bytes=80000000"]).broker
    assert connection_limits(broker).request_memory_bytes == 10_000_000
    assert problems(assignments=["queued.max.request.bytes=5"]) == (
        "queued_max_request_bytes must be at least 1048576, or -1: a share of memory_bytes",
    )


def test_any_setting_of_kafkas_may_be_one_listeners() -> None:
    name = "listener.name.plaintext.num.network.threads"
    assert load_cluster_config(assignments=[f"{name}=5"]).broker.listener_name == {"plaintext_num_network_threads": 5}
    assert problems(assignments=[f"{name}=0"]) == (f"--set {name} must be at least 1, not '0'",)


def test_brokers_of_one_process_need_no_security_between_them() -> None:
    for protocol in ("PLAINTEXT", "SSL"):
        load_cluster_config(assignments=[f"security.inter.broker.protocol={protocol}"])
    refused = problems(assignments=["security.inter.broker.protocol=PLAINTEXT", "store=etcd://a:1/b", "brokers=1"])
    assert "could not recognize each other" in refused[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            "log_cleaner_min_compaction_lag_ms is 2, more than log_cleaner_max_compaction_lag_ms, 1",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer, share"},
            "group_coordinator_rebalance_protocols must have classic, as in Kafka",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], why: str) -> None:
    assert problems(settings=given) == (why,)


def test_policies_of_groups() -> None:
    def told(**given: str) -> tuple[bool, bool, bool]:
        config = group_config(load_cluster_config(settings=given).broker)
        return config.serves_consumers, config.upgrades, config.downgrades

    assert told() == (True, True, True)
    assert told(group_coordinator_rebalance_protocols="classic, streams") == (False, True, True)
    assert told(group_consumer_migration_policy="UPGRADE") == (True, True, False)
    assert told(group_consumer_migration_policy="Disabled") == (True, False, False)


def test_spaces_in_lists_do_not_count_as_in_kafka() -> None:
    given = {
        "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512",
        "ssl.enabled.protocols": "TLSv1.2 ,TLSv1.3",
        "log.cleanup.policy": "compact, delete",
        "log.dirs": "/a, /b",
    }
    broker = load_cluster_config(settings=given).broker
    assert (broker.sasl_enabled_mechanisms, broker.ssl_enabled_protocols) == ("PLAIN,SCRAM-SHA-512", "TLSv1.2,TLSv1.3")
    assert (broker.log_cleanup_policy, broker.without_effect["log_dirs"]) == ("compact,delete", "/a,/b")


SERVER = """\
# The role of this server
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9192,CONTROLLER://:9193
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9192,CONTROLLER://localhost:9193
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
listener.name.controller.ssl.client.auth=required
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b\n", {"a": "b"}),
        ("  a : b\r\nc d e\rf", {"a": "b", "c": "d e", "f": ""}),
        ("# a=b\n! c=d\\\ne=f\n\n", {"e": "f"}),
        ("a=b, \\\n   c, \\\n  #d\ne=\\\\\n", {"a": "b, c, #d", "e": "\\"}),
        ("a\\=b\\ c=\\u0041\\t\\n\\x", {"a=b c": "A\t\nx"}),
        ("a=1\na=2=3\n=4", {"a": "2=3", "": "4"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_kafkas_own_file_starts_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER)
    config = load_cluster_config(file=file, settings={"brokers": "1"})
    (listener,) = listener_configs(config.broker_configs()[0])
    assert (listener.name, listener.port, listener.advertised) == ("PLAINTEXT", 9192, ("localhost", 9192))
    assert (config.broker.log_retention_ms, config.broker.offsets_topic_replication_factor) == (604_800_000, 1)
    assert config.broker.without_effect["log_dirs"] == "/tmp/kraft-combined-logs"


def test_an_unknown_name_in_it_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=localhost:2181\nlog.retention.hour = 1")
    with pytest.raises(ConfigError) as refused:
        load_cluster_config(file=file)
    assert refused.value.problems == (
        f"config file {file}: zookeeper.connect is not a setting",
        f"config file {file}: log.retention.hour is not a setting; did you mean log.retention.hours?",
    )


def test_a_file_that_is_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"log.dirs=\xff")
    with pytest.raises(ConfigError, match=r"server.properties: not text in UTF-8: 'utf-8' codec"):
        load_cluster_config(file=file)


def test_a_file_of_a_controller_alone_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "controller.properties"
    file.write_text("process.roles=controller\nlisteners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER")
    with pytest.raises(ConfigError) as refused:
        load_cluster_config(file=file)
    assert refused.value.problems == ("listeners has those of controllers only, and there are no controllers here",)
