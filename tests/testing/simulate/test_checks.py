"""The checks: each passes what is right, and is seen to fail on its own violation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from purgatorio.testing.simulate import CheckFailed, Outcome, World, simulate
from purgatorio.testing.simulate.checks import CHECKS, Arrived, check

SENT = ["0", "1", "2", "3"]
PARTITIONS = {"0": "orders-0", "1": "orders-1", "2": "orders-0", "3": "orders-1", "9": "orders-1"}

BROKEN = [
    ("lost", "0 1 3", "1 of 4 values did not arrive: 2"),
    ("duplicates", "0 1 2 3 1", "1 of 4 values arrived more than once: 1"),
    ("unexpected", "0 1 2 3 8", "1 values arrived that were not sent: 8"),
    ("order", "2 0 1 3", "1 values arrived after later ones of their partition: 0 after 2 of orders-0"),
    ("exactly-once", "0 0 1 2", "1 of 4 values did not arrive: 3; 1 of 4 values arrived more than once: 0"),
]


def arrived(values: str) -> Arrived:
    return Arrived(SENT, frozenset({"9"}), values.split(), PARTITIONS)


@pytest.mark.parametrize(("name", "values", "sentence"), BROKEN)
def test_each_check_tells_its_violation(name: str, values: str, sentence: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        check(name, arrived(values))
    assert str(failed.value) == f"{name}: {sentence}"
    assert failed.value.check == name


def test_every_check_is_tried() -> None:
    assert {name for name, _, _ in BROKEN} == set(CHECKS)


@pytest.mark.parametrize("values", ["0 1 2 3", "1 3 0 2", "0 1 2 3 9"])
def test_what_is_right_passes_all_checks(values: str) -> None:
    for name in CHECKS:
        check(name, arrived(values))


def test_a_repetition_of_what_arrived_is_no_disorder() -> None:
    check("order", arrived("0 2 0 2 1 1 3"))


# --- services with one bug each, and the check that finds it ---


async def work(world: World, forget: bool = False, repeat: bool = False, shuffle: bool = False) -> list[str]:
    """Return what a service stores of ten records that it reads, without a client."""
    rows = world.store["rows"]

    async def store() -> None:
        values = [record.value for record in world.records("orders")]
        if shuffle:
            values.reverse()
        for nth, value in enumerate(values):
            if not (forget and nth == 4):
                await rows.append(value)
            if repeat and nth == 4:
                await rows.append(value)

    await world.produce("orders", 10, seconds=0)
    await world.settle()
    world.service("worker", store)
    await asyncio.sleep(1)
    return list(rows)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("bug", "found"),
    [
        ({}, []),
        ({"forget": True}, ["exactly-once", "lost"]),
        ({"repeat": True}, ["exactly-once", "duplicates"]),
        ({"shuffle": True}, ["order"]),
    ],
)
def test_the_checks_of_a_world_find_the_bug_of_a_service(bug: dict[str, Any], found: list[str]) -> None:
    failed: list[str] = []

    async def scenario(world: World) -> None:
        rows = await work(world, **bug)
        for name in CHECKS:
            try:
                world.check(name, rows)
            except CheckFailed as failure:
                failed.append(failure.check)

    outcome: Outcome = simulate(scenario, seed=1, faults=(), topics={"orders": 2}, brokers=1)
    assert outcome.passed, outcome.failures
    assert failed == found
