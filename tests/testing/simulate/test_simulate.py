"""Whole simulations: an aiokafka service, faults, and what a failing seed tells."""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import os
import re
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from purgatorio.testing.simulate import SimulationFailed, World, simulate
from purgatorio.testing.simulate.faults import BUSY_SECONDS, QUIET_SECONDS, draw_plan
from purgatorio.testing.simulate.streams import stream
from tests.testing.simulate.services import billing, collecting, copying

pytestmark = pytest.mark.simulation

ALL = ("kill", "pause", "partition")


async def bill_everything(world: World) -> None:
    bills = world.store["bills"]
    world.service("billing", billing, world.bootstrap, bills, replicas=2)
    await world.produce("orders", 20)
    await world.settle()
    world.check("exactly-once", bills)


async def bill_too_late(world: World) -> None:
    bills = world.store["bills"]
    world.service("billing", billing, world.bootstrap, bills, commit_first=True)
    await world.produce("orders", 50)
    await world.settle()
    world.check("exactly-once", bills)


async def collect(world: World, *, keeps: bool) -> None:
    totals = world.store["totals"]
    world.service("collecting", functools.partial(collecting, keeps=keeps), world.bootstrap, totals, replicas=2)
    await world.produce("orders", 120)
    await world.settle()
    world.check("exactly-once", [value for total in totals for value in total])


async def collect_with_old_totals(world: World) -> None:
    await collect(world, keeps=True)


async def collect_with_totals_of_its_own(world: World) -> None:
    await collect(world, keeps=False)


@simulate(seeds=4, faults=ALL, seconds=5, topics={"orders": 2})
async def test_a_service_that_commits_after_its_work_bills_each_order_once(world: World) -> None:
    await bill_everything(world)


@simulate(seeds=2, seconds=5, topics={"orders": 2, "invoices": 1})
async def test_two_services_copy_by_transactions_and_bill_each_order_exactly_once(world: World) -> None:
    bills = world.store["bills"]
    world.service("copying", copying, world.bootstrap, restarts=True)
    world.service("billing", billing, world.bootstrap, bills, topic="invoices")
    await world.produce("orders", 15)
    await world.settle()
    invoices = world.records("invoices", isolation_level="read_committed")
    world.check("exactly-once", invoices, of=lambda record: record.value)
    world.check("exactly-once", bills)
    with pytest.raises(ValueError, match="there is no topic 'bills'"):
        world.records("bills")


def test_a_service_that_commits_before_its_work_loses_orders() -> None:
    test = simulate(bill_too_late, seeds=range(40), topics={"orders": 3}, shrink_seconds=0)
    with pytest.raises(
        SimulationFailed, match=r"(?s)exactly-once: \d+ of 50 values did not arrive.*billing +is killed"
    ):
        test()


SEEDS_OF_A_LOST_UPDATE = range(15, 25)
"""Three of them find it with the hash seed 0, as nine of the first sixty do."""


def find_a_lost_update() -> None:
    options: dict[str, Any] = {"seconds": 60, "topics": {"orders": 2}, "shrink_seconds": 0}
    test = simulate(collect_with_old_totals, seeds=SEEDS_OF_A_LOST_UPDATE, **options)
    with pytest.raises(SimulationFailed, match=r"exactly-once: \d+ of 120 values did not arrive") as failed:
        test()
    simulate(collect_with_totals_of_its_own, seeds=[failed.value.seed], **options)()


@pytest.mark.process
@pytest.mark.timeout(300)
def test_an_update_that_is_lost_at_a_rebalance_is_found_within_ten_seeds() -> None:
    """With another hash seed other seeds find it, since clients walk over sets of topics; so it has a process."""
    call = f"from {__name__} import find_a_lost_update; find_a_lost_update()"
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", call], env=environment, check=True, timeout=290)


def test_a_seed_is_busy_or_quiet_and_has_a_fault_soon() -> None:
    plans = [draw_plan(functools.partial(stream, seed), ["kill"], 60.0) for seed in range(100)]
    starts = [[fault.at_seconds for fault in plan] for plan in plans]
    assert all(BUSY_SECONDS[0] <= start[0] <= BUSY_SECONDS[1] for start in starts)
    pauses = [[after - before for before, after in pairwise(start)] for start in starts]
    quiet = [each for each in pauses if min(each) > QUIET_SECONDS[0] - 0.01]
    assert 40 <= len(quiet) <= 60
    assert all(max(each) < BUSY_SECONDS[1] + 0.01 for each in pauses if each not in quiet)


def test_the_report_of_a_seed_names_the_line_that_runs_it_again() -> None:
    async def wrong(world: World) -> None:
        await world.produce("orders", 1, seconds=0)
        raise ZeroDivisionError("by design")

    with pytest.raises(SimulationFailed, match=r"seed 3 of .*wrong: ZeroDivisionError: by design") as failed:
        simulate(wrong, seeds=[3], topics={"orders": 1})()
    assert "wrong(seed=3)" in str(failed.value)
    assert "0 of" in str(failed.value)
    assert "wrong(seed=3, plan=[])" in str(failed.value)
    assert failed.value.__suppress_context__


def test_the_same_seed_takes_the_same_way_and_another_one_does_not() -> None:
    runs = [simulate(bill_everything, seed=seed, faults=ALL, seconds=5, topics={"orders": 2}) for seed in (7, 7, 8)]
    first, again, other = (run.journal.digest() for run in runs)
    assert first == again != other
    assert runs[0].plan == runs[1].plan != runs[2].plan


def test_pytest_sees_a_plain_function_with_the_fixtures_of_the_scenario() -> None:
    @simulate(seeds=1)
    async def scenario(world: World, tmp_path: Any) -> None:
        """Meaning."""

    assert not inspect.iscoroutinefunction(scenario)
    assert list(inspect.signature(scenario).parameters) == ["tmp_path"]
    assert scenario.__doc__ == "Meaning."


def test_a_service_that_fails_fails_the_seed_with_its_name_and_traceback() -> None:
    async def broken() -> None:
        raise KeyError("order")

    async def scenario(world: World) -> None:
        world.service("billing", broken)
        await world.settle()

    run = simulate(scenario, seed=0, faults=())
    assert [(failure.node, repr(failure.error)) for failure in run.failures] == [("billing", "KeyError('order')")]


@pytest.mark.parametrize(("quiet_seconds", "lost"), [(1.0, True), (3.0, False)])
def test_a_record_that_is_committed_first_is_waited_for_if_the_quiet_is_longer_than_its_work(
    quiet_seconds: float, lost: bool
) -> None:
    async def scenario(world: World) -> None:
        bills = world.store["bills"]
        service = functools.partial(billing, commit_first=True, work_seconds=2.0)
        world.service("billing", service, world.bootstrap, bills)
        await world.produce("orders", 2, seconds=1.0)
        await world.settle(quiet_seconds=quiet_seconds)
        world.check("exactly-once", bills)

    run = simulate(scenario, seed=0, faults=(), topics={"orders": 1})
    errors = [str(failure.error) for failure in run.failures]
    assert errors == (["exactly-once: 1 of 2 values did not arrive: 1"] if lost else [])


def test_a_report_names_the_fewest_faults_and_its_plan_fails_again() -> None:
    async def quiet(world: World) -> None:
        world.service("billing", asyncio.sleep, 1e9)
        await asyncio.sleep(10)
        kills = [entry.node for entry in world.journal.of("fault") if entry.text == "is killed"]
        assert "billing" not in kills

    test = simulate(quiet, seeds=20, brokers=1)
    with pytest.raises(SimulationFailed, match=r"1 of \d+ faults are left") as failed:
        test()
    (plan,) = re.findall(r"plan=(.*)\)", str(failed.value))
    faults = ast.literal_eval(plan)
    assert len(faults) == 1
    with pytest.raises(SimulationFailed, match=f"seed {failed.value.seed} "):
        test(seed=failed.value.seed, plan=faults)


def test_in_a_session_of_python_a_test_runs_with_its_own_options() -> None:
    @simulate(topics={"orders": 1}, faults=(), brokers=1)
    async def scenario(world: World) -> None:
        await world.produce("orders", 1, seconds=0)

    assert simulate(scenario, seed=7).passed
    assert not simulate(scenario, seed=7, topics={"invoices": 1}).passed


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"faults": ("flood",)}, "no fault 'flood', only kill, pause, partition$"),
    ({"faults": ("kil",)}, "did you mean 'kill'"),
    ({"faults": "kill"}, r"faults=\['kill'\]"),
    ({"seeds": 0}, "a test without seeds tests nothing: seeds=0"),
    ({"brokers": 0}, "brokers must be more than 0, not 0"),
    ({"seconds": -1}, "seconds must not be negative, and is -1"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_wrong_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simulate(**options)


def test_what_is_no_scenario_is_refused() -> None:
    async def worldless() -> None:
        pass

    def plain(world: World) -> None:
        pass

    with pytest.raises(TypeError, match=r"a scenario takes the world: async def .*worldless\(world\)"):
        simulate(worldless)
    with pytest.raises(TypeError, match=r"a scenario is an async function, .*plain is none"):
        simulate(seeds=3)(plain)
