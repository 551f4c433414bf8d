"""Property files of Java: how lines, escapes and comments are read; and a server.properties that starts a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.config.listeners import listener_configs
from purgatorio.broker.config.properties import parse_properties
from purgatorio.broker.config.sources import ConfigError, load_cluster_config

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
