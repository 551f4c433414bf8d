"""``purgatorio topics`` over Kafka's protocol: what a user types and reads, with the nearest names after mistakes."""

from __future__ import annotations

import json

from purgatorio.testing import Kafka
from tests.admin.cli.wire.conftest import Run


def test_a_topic_is_created_described_altered_grown_and_deleted(run: Run) -> None:
    ran = run("topics", "create", "bills", "--partitions", "2", "--config", "retention.ms=5000")
    assert ran == (0, "topic bills has 2 partitions\n", "")
    assert run("topics", "create", "one", "--partitions", "1") == (0, "topic one has 1 partition\n", "")
    assert run("topics", "delete", "one").code == 0
    assert run("topic", "alter", "bills", "cleanup.policy=compact", "--unset", "retention.ms").out.splitlines() == [
        "topic bills: cleanup.policy is compact",
        "topic bills: retention.ms is as by default",
    ]
    assert run("topics", "add-partitions", "bills", "1").out == "topic bills has 3 partitions, 1 of them new\n"
    assert run("records", "produce", "bills", "-k", "1", "-p", "2", "x", "y", "-q").code == 0
    assert run("topics", "describe", "bills").out.splitlines() == [
        "topic bills: 3 partitions, 1 replica",
        "  cleanup.policy=compact",
        "",
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR  START  END",
        "bills-0    1       0      1         1    0      0",
        "bills-1    1       0      1         1    0      0",
        "bills-2    1       0      1         1    0      2",
    ]
    short = run("topics", "describe", "bills", "--limit", "1").out.splitlines()
    assert short[-1] == "and 2 more; --limit says how many are shown"
    assert run("topics", "delete", "bills").out == "topic bills is deleted\n"
    assert "there is no topic bills" in run("topics", "describe", "bills").err


def test_topics_are_listed_alike_by_the_protocol_and_by_the_admin_http(run: Run) -> None:
    by_protocol = run("topics", "list", "--topic", "orders").out
    by_admin = run("topics", "list", "--topic", "orders", found=True).out
    columns = [line.split()[:5] for line in by_admin.splitlines()]
    assert [line.split() for line in by_protocol.splitlines()] == columns
    assert run("topics", "list", "--limit", "1").out.splitlines()[-1].startswith("and ")


def test_those_that_can_be_deleted_are_when_one_is_missing(run: Run, kafka: Kafka) -> None:
    kafka.topic("first")
    kafka.topic("second")
    ran = run("topics", "delete", "first", "oders", "second")
    assert ran.code == 1
    assert ran.out == "topic first is deleted\ntopic second is deleted\n"
    assert ran.err == "purgatorio: UNKNOWN_TOPIC_OR_PARTITION: there is no topic oders; did you mean orders?\n"


def test_refusals_have_kafkas_name_and_a_sentence(run: Run) -> None:
    ran = run("topics", "create", "orders")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "purgatorio: TOPIC_ALREADY_EXISTS: Topic 'orders' exists already.\n"
    assert run("topics", "create", "a/b").err.startswith("purgatorio: INVALID_TOPIC_EXCEPTION: ")
    assert run("topics", "create", "wide", "--replicas", "9").err.startswith("purgatorio: INVALID_REPLICATION_FACTOR: ")
    assert run("topics", "add-partitions", "zzz", "1").err == (
        "purgatorio: UNKNOWN_TOPIC_OR_PARTITION: there is no topic zzz, only orders\n"
    )
    assert run("topics", "add-partitions", "orders", "0").code == 2
    assert run("topics", "alter", "orders") == (2, "", "purgatorio: give NAME=VALUE, or --unset NAME\n")
    ran = run("topics", "create", "none", "--partitions", "0")
    assert (ran.code, ran.err.splitlines()[0].partition(": ")[2]) == (2, "argument --partitions: 0 is less than 1")
    for found in (True, False):
        ran = run("topics", "list", "--topic", "oders", found=found)
        assert (ran.code, ran.err.endswith("there is no topic oders; did you mean orders?\n")) == (1, True)
    assert run("topics", "alter", "orders", "retention=1").err.count("retention.ms") == 1
    assert run("topics", "alter", "orders", "retention.ms").code == 2
    assert run("topics", "alter", "orders", "--unset", "retention.ms", "retention").code == 2


def test_json_has_all_that_is_known(run: Run) -> None:
    found = json.loads(run("topics", "describe", "orders", "--json").out)
    assert (found["topic"], found["partition_count"], found["configs"]) == ("orders", 2, [])
    assert found["partitions"][0]["end_offset"] == 0
