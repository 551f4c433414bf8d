"""The facts of a running cluster."""

from __future__ import annotations

import json
import socket

import pytest

from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.reading.why.facts import merged_facts, read_facts
from purgatorio.admin.operations.why import Report, Why
from purgatorio.protocol.api import encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from purgatorio.testing import Kafka, cluster
from tests.admin.operations.reading.why.documents import NOTHING


def facts_of(kafka: Kafka) -> dict[str, object]:
    operator: Operator = kafka._backend._operator  # type: ignore[attr-defined]
    return kafka._thread.run(read_facts(operator), "read the facts")


def test_facts_are_json_and_of_an_idle_cluster_too() -> None:
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        found = facts_of(kafka)
    assert json.loads(json.dumps(found)).keys() == NOTHING.keys()
    assert (found["topics"], found["positions"], found["groups"]) == (["orders"], [], [])


def test_a_consumer_has_a_position_and_a_start() -> None:
    """At its offset since its first fetch there, though it has fetched again since."""
    one = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1_000)
    fetch = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[one])])
    asked = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        kafka.produce("orders", "first")
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"".join(encode_request(ApiKey.LIST_OFFSETS, 6, 1, "billing", ListOffsetsRequest(topics=[asked])))
            )
            client.sendall(b"".join(encode_request(ApiKey.FETCH, 12, 2, "billing", fetch)))
            fetch.max_wait_ms, fetch.isolation_level = 60_000, 1
            client.sendall(b"".join(encode_request(ApiKey.FETCH, 12, 3, "billing", fetch)))
            with client.makefile("rb") as answers:
                for _ in range(2):  # the first fetch has ended, so that only the second can be parked
                    answers.read(int.from_bytes(answers.read(4), "big"))
            kafka.until_parked(api="Fetch", client="billing").wait()
            found = facts_of(kafka)
    (position,), (start,) = found["positions"], found["starts"]  # type: ignore[misc]
    assert (position["client"], position["topic"], position["partition"]) == ("billing", "orders", 0)
    assert (position["offset"], position["first_offset"], position["is_waiting"]) == (1, 1, True)
    assert (position["isolation"], position["min_bytes"], position["available_bytes"]) == ("read_committed", 1, 0)
    assert position["since_ms"] <= position["last_ms"]
    assert (start["client"], start["timestamp"], start["offset"]) == ("billing", -1, 1)


def test_a_merge_of_one_document_is_that_document() -> None:
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        found = facts_of(kafka)
    assert merged_facts([found], found["partitions"], []) == found  # type: ignore[arg-type]


def test_the_report_of_the_admin_http_is_that_of_a_failed_test() -> None:
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        assert kafka.do(Report())["text"] == kafka.report()
        assert kafka.do(Why("orders"))["text"].splitlines() == [
            "nothing is found that keeps orders from what it wants",
            "topics:",
            "  orders-0 is empty",
            "parked operations: none",
        ]
        with pytest.raises(ValueError, match=r"there is no group, topic or client order; did you mean orders\?"):
            kafka.explain("order")


@pytest.mark.process
def test_processes_have_facts_together_and_a_dead_cluster_has_a_report() -> None:
    with cluster(brokers=2, processes=True) as kafka:
        kafka.topic("orders", partitions=2)
        leaders = {kafka.leader("orders", each) for each in range(2)}
        for each in range(2):
            kafka.produce("orders", "first", partition=each)
        with socket.create_connection(("127.0.0.1", int(kafka.bootstrap.rpartition(":")[2]))) as client:
            client.sendall(b"".join(encode_request(ApiKey.METADATA, 5, 1, "billing", MetadataRequest(topics=[]))))
            client.recv(1)
        lines = kafka.report().splitlines()
        assert "  orders-0 ends at offset 1, orders-1 ends at offset 1" in lines
        assert lines[-1].endswith("Metadata of billing: answered")
        assert kafka.do(Report())["text"].splitlines()[:2] == kafka.report().splitlines()[:2]
        for each in kafka.brokers:
            kafka.kill(each)
        assert kafka.report().splitlines()[1].startswith("brokers: 1 (")
    assert leaders == {1, 2}


def test_a_dead_cluster_has_a_report() -> None:
    with cluster(brokers=2) as kafka:
        kafka.topic("orders")
        for each in list(kafka.brokers):
            kafka.kill(each)
        assert kafka.report().splitlines()[:2] == [
            "no broker runs: 1 and 2 were stopped or killed; start one",
            "brokers: 1 (does not run), 2 (does not run)",
        ]


def test_refusals_are_kept_with_what_was_missing() -> None:
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    with cluster(brokers=1, acls=[], sasl="PLAIN") as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"".join(encode_request(ApiKey.METADATA, 4, 1, "billing", metadata)))
            assert client.recv(1) == b""
        (connection,) = facts_of(kafka)["refused_connections"]  # type: ignore[misc]
    assert connection["reason"] == "not_authenticated"
    assert connection["detail"] == "METADATA before authentication"
    with cluster(brokers=1, acls=[]) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"".join(encode_request(ApiKey.METADATA, 4, 1, "billing", metadata)))
            assert client.recv(1)
        (denied,) = facts_of(kafka)["denied"]  # type: ignore[misc]
    assert (denied["client"], denied["principal"], denied["operation"]) == ("billing", "User:ANONYMOUS", "DESCRIBE")
    assert (denied["resource"], denied["name"], denied["api"]) == ("TOPIC", "orders", "METADATA")


def test_a_client_that_was_connected_before_a_reset_is_known() -> None:
    def connect(client: str) -> socket.socket:
        host, _, port = kafka.bootstrap.rpartition(":")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(b"".join(encode_request(ApiKey.METADATA, 9, 1, client, MetadataRequest())))
        assert connection.recv(1)
        return connection

    with cluster(brokers=1) as kafka:
        with connect("late"), connect("gone"):
            kafka.reset()
        with connect("late"), connect("new"):
            found = facts_of(kafka)
    assert (found["clients"], found["left_over"]) == (["late", "new"], ["late"])
