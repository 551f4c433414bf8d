"""A seed takes the same way in another process, step by step, or a report names the step from which it does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from purgatorio.testing.simulate import SimulationFailed, World, simulate
from purgatorio.testing.simulate.determinism import Twins, started, twins
from purgatorio.testing.simulate.run import Options, run_seed
from purgatorio.testing.simulate.steps import Steps
from tests.testing.simulate.services import billing

pytestmark = pytest.mark.simulation

OPTIONS = Options(faults=("kill", "pause", "partition"), seconds=2, topics={"orders": 2})


async def bill(world: World) -> None:
    """A scenario that takes the same way in each process."""
    world.service("billing", billing, world.bootstrap, world.store["bills"], replicas=2)
    await world.produce("orders", 5)
    await world.settle()


async def wait_for_the_process(world: World) -> None:
    """A scenario whose way depends on what no seed decides."""
    print("which is no step")
    await asyncio.sleep(os.getpid() / 1000)


@pytest.fixture
def pair() -> Iterator[Twins]:
    with twins(bill, OPTIONS) as running:
        yield running


@pytest.mark.process
def test_a_service_with_a_real_client_takes_the_same_steps_in_another_process(pair: Twins) -> None:
    assert pair.check(3) > 1_000


@pytest.mark.process
def test_a_scenario_that_goes_by_its_process_is_told_with_the_first_step_that_differs() -> None:
    test = simulate(wait_for_the_process, seeds=2, brokers=1, faults=(), check_determinism=True)
    with pytest.raises(
        SimulationFailed,
        match=r"seed 0 of wait_for_the_process takes another way in another process, from step \d+ on\n"
        r"(?s:.*)in the one: \d+\.\d+ s +\S+ +\S+, draws (?s:.*)in the other: \d+\.\d+ s ",
    ):
        test()


@pytest.mark.process
def test_a_process_that_ends_is_told() -> None:
    with started("input(); raise SystemExit('out of memory')", ()) as child:
        child.begin(0)
        with pytest.raises(RuntimeError, match=r"has ended:\nout of memory"):
            child.step()


def test_what_another_process_cannot_import_is_refused() -> None:
    async def local(world: World) -> None:
        pass

    with pytest.raises(ValueError, match=r"local in another process: define it in a module, without fixtures"):
        simulate(local, seeds=1, check_determinism=True)()


def test_a_run_whose_steps_are_told_takes_the_way_of_one_whose_steps_are_not() -> None:
    runs: list[list[str]] = []
    for _ in range(2):
        runs.append([])
        told = run_seed(bill, OPTIONS, 3, steps=Steps(runs[-1].append))
    assert runs[0] == runs[1]
    assert "0x" not in "".join(runs[0])
    assert told.journal.digest() == run_seed(bill, OPTIONS, 3).journal.digest()


def test_another_draw_is_another_step() -> None:
    steps: list[str] = []
    recorder = Steps(steps.append)
    seen = []
    for purpose in ("network", "schedule"):
        rng = recorder.stream(1, purpose)
        seen += [rng.random(), rng.choice(range(100)), rng.uniform(0, 1)]
    assert len(set(seen)) == len(seen)
