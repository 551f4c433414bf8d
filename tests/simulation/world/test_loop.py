"""Virtual time, nodes, and what a seed decides."""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop, SimulationStalled, current_node
from tests.histories import seeds


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    running = SimulatedLoop(random.Random(1))
    yield running
    running.close()


def run(loop: SimulatedLoop, main: Callable[[], Awaitable[None]]) -> None:
    async def as_coroutine() -> None:
        await main()

    loop.run_until_complete(as_coroutine())


def test_an_hour_passes_at_once(loop: SimulatedLoop) -> None:
    clock = SimulatedClock(loop)
    before = clock.now_ms(), clock.wall_ms()
    loop.run_until_complete(asyncio.sleep(3600))
    assert (clock.now_ms() - before[0], clock.wall_ms() - before[1]) == (3_600_000, 3_600_000)


def test_timers_come_in_the_order_of_their_times(loop: SimulatedLoop) -> None:
    seen: list[int] = []

    async def main() -> None:
        for delay in (3, 1, 2):
            loop.call_later(delay, seen.append, delay)
        await asyncio.sleep(5)

    run(loop, main)
    assert seen == [1, 2, 3]


def test_nothing_left_to_do_is_an_error_and_not_a_wait_for_ever(loop: SimulatedLoop) -> None:
    with pytest.raises(SimulationStalled):
        loop.run_until_complete(asyncio.Event().wait())


def interleaving(seed: int) -> str:
    loop = SimulatedLoop(random.Random(seed))
    seen: list[str] = []

    async def main() -> None:
        for number in range(4):
            for name in "abc":
                loop.node(name).call(seen.append, f"{name}{number}")
        await asyncio.sleep(1)

    run(loop, main)
    loop.close()
    return " ".join(seen)


def test_the_seed_decides_who_goes_first_and_a_node_keeps_its_order() -> None:
    orders = [interleaving(seed) for seed in range(10)]
    assert len(set(orders)) > 5
    assert orders == [interleaving(seed) for seed in range(10)]
    for order in orders:
        for name in "abc":
            assert [step for step in order.split() if step[0] == name] == [f"{name}{number}" for number in range(4)]


def test_what_a_node_schedules_is_its_own(loop: SimulatedLoop) -> None:
    seen: list[str] = []

    def note() -> None:
        node = current_node()
        seen.append("world" if node is None else node.name)

    async def work() -> None:
        note()
        loop.call_soon(note)
        loop.call_later(1, note)
        await asyncio.create_task(asyncio.sleep(2))
        note()

    async def main() -> None:
        await loop.node("a").spawn(work())
        note()

    run(loop, main)
    assert seen == ["a", "a", "a", "a", "world"]


def test_a_paused_node_does_nothing_and_then_everything_in_order(loop: SimulatedLoop) -> None:
    seen: list[float] = []
    node = loop.node("a")

    async def main() -> None:
        began = loop.time()
        for delay in (1, 2, 3):
            node.call(lambda delay=delay: loop.call_later(delay, lambda: seen.append(delay)))
        await asyncio.sleep(0.5)
        node.pause()
        await asyncio.sleep(2)
        assert seen == []
        node.resume()
        await asyncio.sleep(0.01)
        assert loop.time() - began < 3
        assert seen == [1, 2]
        await asyncio.sleep(1)
        assert seen == [1, 2, 3]

    run(loop, main)


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_a_node_that_goes_on_in_the_middle_of_a_turn_keeps_its_order(seed: int) -> None:
    loop = SimulatedLoop(random.Random(seed))
    seen: list[int] = []
    node = loop.node("a")

    async def main() -> None:
        node.pause()
        for number in range(10):
            node.call(seen.append, number)
        await asyncio.sleep(1)
        loop.call_soon(node.resume)
        for number in range(10, 20):
            node.call(seen.append, number)
        await asyncio.sleep(1)

    run(loop, main)
    loop.close()
    assert seen == list(range(20))


def test_a_node_that_is_paused_again_at_once_stays_paused(loop: SimulatedLoop) -> None:
    seen: list[str] = []
    node = loop.node("a")

    async def main() -> None:
        node.pause()
        node.call(seen.append, "held")
        await asyncio.sleep(1)
        node.resume()
        node.pause()
        await asyncio.sleep(1)
        assert seen == []
        node.resume()
        await asyncio.sleep(1)
        assert seen == ["held"]

    run(loop, main)


def test_a_node_that_makes_one_turn_holds_what_comes_of_it_for_the_next(loop: SimulatedLoop) -> None:
    seen: list[str] = []
    node = loop.node("a")

    async def work() -> None:
        for number in range(4):
            seen.append(f"step {number}")
            await asyncio.sleep(0)

    async def main() -> None:
        node.pause()
        node.spawn(work())
        node.call(loop.call_later, 0.5, seen.append, "timer")
        for count in range(1, 4):
            await asyncio.sleep(1)
            assert len([each for each in seen if each.startswith("step")]) == count - 1
            node.turn()
        await asyncio.sleep(1)
        assert seen == ["step 0", "step 1", "timer", "step 2"]
        node.resume()
        await asyncio.sleep(1)
        assert seen == ["step 0", "step 1", "timer", "step 2", "step 3"]

    run(loop, main)


def test_a_running_node_needs_no_turn(loop: SimulatedLoop) -> None:
    async def main() -> None:
        node = loop.node("a")
        node.turn()
        await asyncio.sleep(1)
        assert not node.paused

    run(loop, main)


@pytest.mark.filterwarnings("error")
def test_a_killed_node_never_runs_again_and_its_tasks_have_ended(loop: SimulatedLoop) -> None:
    seen: list[str] = []
    node = loop.node("a")

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("worked")
        finally:
            await asyncio.sleep(0.1)
            seen.append("unwound")

    async def main() -> None:
        task = node.spawn(work())
        node.call(lambda: loop.call_later(1, seen.append, "timer"))
        await asyncio.sleep(0.5)
        node.kill()
        await asyncio.sleep(0)
        assert task.done()
        await asyncio.sleep(5)
        assert loop.node("a") is not node

    run(loop, main)
    gc.collect()
    assert seen == ["unwound"]


@pytest.mark.filterwarnings("error")
def test_a_killed_node_comes_to_its_end_though_it_waits_for_ever_in_its_finally_blocks(loop: SimulatedLoop) -> None:
    node, seen = loop.node("a"), []

    async def wait_for_ever() -> None:
        await loop.create_future()

    async def work() -> None:
        try:
            await wait_for_ever()
        finally:
            try:
                await asyncio.shield(asyncio.create_task(wait_for_ever()))  # as a client that flushes what it has
            finally:
                seen.append("unwound")

    async def main() -> None:
        task = node.spawn(work())
        await asyncio.sleep(0.5)
        node.kill()
        await asyncio.sleep(0)
        assert task.done()

    run(loop, main)
    assert seen == ["unwound"]


def test_a_killed_node_comes_to_its_end_though_it_tries_again_for_ever(loop: SimulatedLoop) -> None:
    node = loop.node("a")

    async def retry() -> None:
        while True:  # noqa: ASYNC110 - no event comes
            await asyncio.sleep(0.1)

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await retry()

    async def main() -> None:
        task = node.spawn(work())
        await asyncio.sleep(0.5)
        node.kill()
        await asyncio.sleep(0)
        assert task.done()

    run(loop, main)


def test_what_unwinds_at_the_end_has_a_running_loop() -> None:
    loop, seen = SimulatedLoop(random.Random(1)), []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(loop.is_running())

    async def main() -> None:
        loop.node("a").spawn(work())
        await asyncio.sleep(1)

    run(loop, main)
    loop.close()
    assert seen == [True]
    assert not loop.is_running()


@pytest.mark.filterwarnings("error")
def test_a_killed_node_takes_no_more_tasks(loop: SimulatedLoop) -> None:
    node = loop.node("a")
    node.kill()
    with pytest.raises(RuntimeError, match="a was killed"):
        node.spawn(asyncio.sleep(1))


@pytest.mark.filterwarnings("error")
def test_a_simulation_that_breaks_off_leaves_nothing() -> None:
    loop = SimulatedLoop(random.Random(1))

    async def for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        loop.node("a").spawn(for_ever())
        asyncio.create_task(for_ever())  # noqa: RUF006 - to be left behind is its purpose
        await asyncio.sleep(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(loop, main)
    loop.close()
    gc.collect()


@pytest.mark.filterwarnings("error")
def test_a_simulation_that_is_interrupted_within_a_turn_leaves_nothing() -> None:
    loop = SimulatedLoop(random.Random(1))

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        loop.call_soon(interrupt)
        for name in "abc":
            loop.node(name).spawn(asyncio.sleep(1))
        await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run(loop, main)
    loop.close()
    gc.collect()


HISTORY = """
from purgatorio.simulation.run import Scenario, simulate
print(simulate(7, Scenario(seconds=4)).history.digest())
"""


@pytest.mark.process
@pytest.mark.simulation
def test_the_same_seed_gives_the_same_history_whatever_the_hashes_are() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", HISTORY],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_a_clock_of_another_rate_runs_and_waits_by_that_rate_but_tells_the_same_wall_time(loop: SimulatedLoop) -> None:
    async def main() -> None:
        clock, slow = SimulatedClock(loop), SimulatedClock(loop, 0.5)
        assert slow.now_ms() == clock.now_ms() == 1_000_000
        rung: list[int] = []
        slow.call_later(100, lambda: rung.append(clock.now_ms()))
        await slow.sleep(1_000)
        assert (clock.now_ms(), slow.now_ms(), rung) == (1_002_000, 1_001_000, [1_000_200])
        assert slow.wall_ms() == clock.wall_ms()

    loop.run_until_complete(main())
