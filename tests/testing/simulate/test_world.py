"""The world of a scenario: processes that are killed and start anew, the store, topics, time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from purgatorio.testing.simulate import Outcome, World
from purgatorio.testing.simulate.faults import PlannedFault
from purgatorio.testing.simulate.run import Options, run_seed

pytestmark = pytest.mark.simulation


def run(scenario: Any, *faults: PlannedFault, **options: Any) -> Outcome:
    return run_seed(scenario, Options(**{"brokers": 1, **options}), 1, faults)


def kill(at_seconds: float, aim: float = 0.9, seconds: float = 1.0) -> PlannedFault:
    return PlannedFault(at_seconds, "kill", aim, seconds)


def test_a_killed_service_starts_anew_and_what_its_finally_blocks_do_does_not_reach_the_store() -> None:
    async def work(table: Any) -> None:
        await table.append("started")
        try:
            await asyncio.sleep(60)
        finally:
            await table.append("ended")

    async def scenario(world: World) -> None:
        world.service("worker", work, world.store["log"])
        await asyncio.sleep(5)
        assert world.store["log"].rows == ["started", "started"]

    outcome = run(scenario, kill(2))
    assert outcome.passed, outcome.failures
    assert [entry.text for entry in outcome.journal.of("service")] == ["starts", "starts"]


def test_a_service_that_may_fail_is_started_again() -> None:
    async def work(table: Any) -> None:
        await table.append("try")
        if len(table) < 3:
            raise ConnectionError("not yet")

    async def scenario(world: World) -> None:
        world.service("worker", work, world.store["tries"], restarts=True)
        await asyncio.sleep(5)
        assert len(world.store["tries"]) == 3

    assert run(scenario).passed


def test_services_serve_and_call_each_other_by_their_names() -> None:
    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"bill " + await reader.readline())
            writer.close()

        async with await asyncio.start_server(answer, "0.0.0.0", 80) as server:
            await server.serve_forever()

    async def call(host: str, answers: Any) -> None:
        reader, writer = await asyncio.open_connection(host, 80)
        writer.write(b"tea\n")
        await answers.append(await reader.read())
        writer.close()

    async def scenario(world: World) -> None:
        answers = world.store["answers"]
        world.service("web", serve)
        world.service("other", serve)
        await asyncio.sleep(1)
        world.service("client", call, "web.sim", answers)
        await asyncio.sleep(1)
        assert answers.rows == [b"bill tea\n"]
        world.service("lost", call, "localhost", answers, restarts=True)
        await asyncio.sleep(1)
        assert "Connect call failed ('lost.sim', 80)" in world.journal.of("service")[-1].text

    outcome = run(scenario)
    assert outcome.passed, outcome.failures


def test_replicas_are_processes_of_their_own() -> None:
    async def work(table: Any) -> None:
        while True:
            await asyncio.sleep(1)
            await table.append(asyncio.current_task().get_name())  # type: ignore[union-attr]

    async def scenario(world: World) -> None:
        world.service("worker", work, world.store["log"], replicas=2)
        with pytest.raises(ValueError, match="there is a service 'worker-1' already"):
            world.service("worker-1", work, world.store["log"])
        await asyncio.sleep(4.5)
        assert sorted(world.store["log"]) == ["worker-1"] * 4 + ["worker-2"] * 2

    outcome = run(scenario, PlannedFault(2.5, "pause", 0.9, 10.0))
    assert outcome.passed, outcome.failures


def test_a_table_keeps_what_is_appended_and_one_row_for_each_key_that_is_put() -> None:
    async def scenario(world: World) -> None:
        table = world.store["bills"]
        for _ in range(2):
            await table.put("tea", 1)
            await table.append(2)
        assert table.rows == [1, 2, 2]
        assert (await table.get("tea"), await table.get("cake", 0)) == (1, 0)

    assert run(scenario).passed


def test_records_are_produced_once_and_in_order_though_brokers_are_killed() -> None:
    async def scenario(world: World) -> None:
        await world.topic("orders", partitions=2, cleanup_policy="compact")
        assert await world.produce("orders", 10, key=lambda number: b"%d" % number) == list(range(10))
        assert await world.produce("orders", 2, seconds=0) == [10, 11]
        world.check("exactly-once", [str(number).encode() for number in range(12)])

    plan = [kill(1, 0.0), kill(4, 0.2), kill(7, 0.4)]
    outcome = run(scenario, *plan, brokers=3)
    assert outcome.passed, outcome.failures
    assert [entry.text for entry in outcome.journal.of("fault")] == ["is killed", "starts"] * 3


def test_time_is_virtual() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(60)
        assert world.seconds == pytest.approx(60, abs=0.001)
        assert world.now() - datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC) < timedelta(seconds=1)

    outcome = run(scenario)
    assert outcome.passed
    assert outcome.real_seconds < 30


def test_what_a_scenario_misspells_is_told() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ValueError, match="there is no topic 'order'"):
            await world.produce("order", 1)
        with pytest.raises(ValueError, match=r"no check 'exactly_once', only .*; did you mean 'exactly-once'"):
            world.check("exactly_once", [])
        with pytest.raises(ValueError, match="was not created"):
            await world.topic("orders", colour="red")

    outcome = run(scenario)
    assert outcome.passed, outcome.failures
