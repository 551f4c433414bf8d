"""``purgatorio groups`` over Kafka's protocol has the same form as by the admin HTTP, as far as the protocol knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from purgatorio.testing import Kafka
from tests.admin.cli.wire.conftest import Run

PATIENCE_SECONDS = 20


@pytest.fixture(scope="module", params=["classic", "consumer"])
def member(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[str]:
    """A group with one member, which has read orders-0 and orders-1 by either protocol; returns its id."""
    group = f"billing-{request.param}"
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": group,
        "client.id": "app",
        "group.protocol": request.param,
        "auto.offset.reset": "earliest",
    }
    kafka.produce("orders", "x", "y", "z", partition=0)
    with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        consumer.commit(message, asynchronous=False)
        yield group


def test_a_group_with_a_member_is_described(run: Run, member: str) -> None:
    lines = run("groups", "describe", member).out.splitlines()
    assert re.match(rf"group {member}: Stable, (epoch \d+, )?assignor \S+, coordinator broker 1", lines[0])
    assert lines[2].split() == ["MEMBER", "CLIENT", "HOST", "OWNS"]
    assert lines[3].split()[-3:] == ["app", "127.0.0.1", "orders:0-1"]
    (row,) = (line.split() for line in lines if line.startswith("orders-0"))
    assert int(row[2]) - int(row[1]) == int(row[3])
    assert row[1] == "1"


def test_groups_are_listed_with_members_and_lag(run: Run, member: str) -> None:
    (row,) = (line.split() for line in run("groups", "list").out.splitlines() if line.startswith(member))
    assert row[:4] == [member, "Stable", member.partition("-")[2], "1"]
    assert int(row[4]) > 0
    by_admin = [line.split() for line in run("groups", "list", found=True).out.splitlines() if line.startswith(member)]
    assert by_admin == [row]


def test_a_group_with_members_is_neither_deleted_nor_reset(run: Run, member: str) -> None:
    assert run("groups", "delete", member).err.startswith("purgatorio: NON_EMPTY_GROUP: ")
    ran = run("groups", "reset-offsets", member, "--topic", "orders", "--to", "earliest")
    assert ran.code == 1
    assert "UNKNOWN_MEMBER_ID" in ran.err or "has members" in ran.err


def test_offsets_are_reset_and_an_empty_group_is_deleted(run: Run) -> None:
    assert run("records", "produce", "orders", "a", "b", "-p", "1", "-q").code == 0
    assert run("records", "consume", "orders", "--group", "nightly", "-q").code == 0
    ran = run("groups", "reset-offsets", "nightly", "--topic", "orders", "--partition", "1", "--to", "earliest")
    assert ran.out.splitlines()[0].split() == ["PARTITION", "BEFORE", "NOW"]
    assert ran.out.splitlines()[1].split() == ["orders-1", "2", "0"]
    assert run("groups", "delete", "nightly").out == "group nightly is deleted\n"
    assert run("groups", "describe", "nightly").err.startswith(
        "purgatorio: GROUP_ID_NOT_FOUND: there is no group nightly"
    )
    assert run("groups", "delete", "nightly").err.startswith("purgatorio: GROUP_ID_NOT_FOUND: ")


def test_a_missing_group_names_the_nearest(run: Run, member: str) -> None:
    near = run("groups", "describe", member + "x").err
    assert near == f"purgatorio: GROUP_ID_NOT_FOUND: there is no group {member}x; did you mean {member}?\n"
    ran = run("groups", "reset-offsets", "g", "--topic", "oders", "--to", "latest")
    assert ran.err.endswith("there is no topic oders; did you mean orders?\n")


@pytest.mark.parametrize("found", [False, True])
def test_offsets_of_a_misspelt_group_are_not_reset_unless_it_is_to_be_made(run: Run, member: str, found: bool) -> None:
    line = ["groups", "reset-offsets", f"{member}{'y' if found else 'x'}", "--topic", "orders", "--to", "earliest"]
    ran = run(*line, found=found)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(f"there is no group {line[2]}; did you mean {member}? --create makes it\n")
    assert run(*line, "--create", found=found).out.splitlines()[0] == f"group {line[2]} is new"
    assert "new" not in run(*line, found=found).out
    assert run("groups", "delete", line[2]).code == 0
