"""One run: a scenario in a world that a seed decides."""

from __future__ import annotations

import asyncio
import gc
import time
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final

from purgatorio.late import dataclass
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import START_SECONDS, SimulationStalled
from purgatorio.simulation.world.network import SimulatedNetwork
from purgatorio.testing.simulate.faults import Plan, draw_plan
from purgatorio.testing.simulate.fences import fenced
from purgatorio.testing.simulate.journal import Journal
from purgatorio.testing.simulate.libraries import adapted
from purgatorio.testing.simulate.loop import ServiceLoop
from purgatorio.testing.simulate.outcome import Failure, Outcome
from purgatorio.testing.simulate.patches import patched
from purgatorio.testing.simulate.steps import Steps
from purgatorio.testing.simulate.streams import stream
from purgatorio.testing.simulate.watch import Watch, logged
from purgatorio.testing.simulate.world import World

Scenario = Callable[..., Coroutine[Any, Any, None]]

_NOT_OF_SCENARIOS: Final = (Path(asyncio.__file__).parent, Path(__file__).parents[1])
MAX_FAILURES: Final = 20
"""Failures kept of one run; a service that restarts may fail again and again."""
PROFILE: Final[Mapping[str, Any]] = {
    "min_insync_replicas": 2,
    "default_replication_factor": 3,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "group_min_session_timeout_ms": 1,
    "replica_lag_time_max_ms": 1_500,
    "replica_fetch_wait_max_ms": 300,
    "replica_socket_timeout_ms": 2_000,
    "shutdown_grace_ms": 500,
}
"""Settings of simulated brokers that differ from the defaults: few partitions, and short waits for replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The demands of a scenario on its world. See `purgatorio.testing.simulate.simulate`."""

    faults: tuple[str, ...] = ("kill",)
    seconds: float = 10.0
    brokers: int = 3
    topics: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit_seconds: float = 30.0


def run_seed(
    scenario: Scenario, options: Options, seed: int, plan: Plan | None = None, *, steps: Steps | None = None
) -> Outcome:
    """Run a scenario with a seed.

    Args:
        plan: the faults; by default those that the seed draws.
        steps: records each step.

    Raises:
        RuntimeError: a simulation runs already in this process.
    """
    return _Run(scenario, options, seed, plan, steps).run()


class _Run:
    def __init__(self, scenario: Scenario, options: Options, seed: int, plan: Plan | None, steps: Steps | None) -> None:
        self._scenario = scenario
        self._options = options
        self._seed = seed
        self._streams = partial(stream if steps is None else steps.stream, seed)
        self._began_seconds = START_SECONDS
        if plan is None:
            plan = draw_plan(self._streams, options.faults, options.seconds)
        self._outcome = Outcome(seed, plan, Journal(self._seconds))
        self._watch = Watch(self._outcome.journal, self._failed)
        self._loop = ServiceLoop(
            self._streams("schedule"), limit_seconds=options.limit_seconds, fenced=self._watch.fenced
        )
        self._watch.follow(self._loop)
        if steps is not None:
            steps.follow(self._loop)
        self._main: asyncio.Task[None] | None = None

    def _seconds(self) -> float:
        return self._loop.time() - self._began_seconds

    def _failed(self, node: str, error: BaseException) -> None:
        """Keep a failure, and end the run."""
        failures = self._outcome.failures
        if len(failures) < MAX_FAILURES and all(failure.error is not error for failure in failures):
            failures.append(Failure(self._seconds(), node, error))
        if self._main is not None:
            self._main.cancel()

    def run(self) -> Outcome:
        began = time.perf_counter()
        try:
            with (
                _collected(),
                logged(self._watch),
                fenced(self._watch.fenced),
                patched(self._loop, self._seed, self._streams),
                adapted(),
            ):
                try:
                    self._loop.run_until_complete(self._supervise())
                except (TimeoutError, SimulationStalled) as error:  # of the loop, whose frames show nothing
                    error.add_note(f"The scenario waits {place_of(self._main)}.")
                    self._failed("world", error.with_traceback(None))
                except (Exception, asyncio.CancelledError) as error:
                    self._failed("world", error)
                finally:
                    self._outcome.virtual_seconds = self._seconds()
                    self._loop.close()
                    for failure in self._outcome.failures:
                        _let_go(failure.error)
                    del self._main, self._loop, self._watch  # what is left is garbage, to be collected now
        finally:
            self._outcome.real_seconds = time.perf_counter() - began
        return self._outcome

    async def _supervise(self) -> None:
        """Run the scenario until it ends, or anything fails."""
        self._main = asyncio.create_task(self._live(), name="scenario")
        await asyncio.wait([self._main])
        error = None if self._main.cancelled() else self._main.exception()
        if error is not None:
            self._failed("world", error)

    async def _live(self) -> None:
        network = SimulatedNetwork(self._loop, self._streams("network"))
        cluster = SimulatedCluster(
            self._loop,
            network,
            self._streams("cluster"),
            count=self._options.brokers,
            racks=True,  # aiokafka keeps brokers in sets: a rack of None has an address for its hash before Python 3.12
            domain="sim",
            **{**PROFILE, **self._options.settings},
        )
        await cluster.start()
        world = World(
            cluster,
            journal=self._outcome.journal,
            streams=self._streams,
            failed=self._failed,
            ending=self._watch.look,
            seconds=self._options.seconds,
        )
        for name, partitions in self._options.topics.items():
            await world.topic(name, partitions=partitions)
        self._began_seconds = self._loop.time()
        world.begin(self._outcome.plan)
        try:
            await self._scenario(world)
            self._watch.look()
        finally:
            world.stop()


def place_of(task: asyncio.Task[Any] | None) -> str:
    """Return where a task waits: the innermost line that is neither asyncio's nor of this library."""
    place = "nowhere"
    waiting: Any = None if task is None else task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        file = Path(frame.f_code.co_filename)
        if not any(file.is_relative_to(folder) for folder in _NOT_OF_SCENARIOS):
            place = f"at {file.name}:{frame.f_lineno}, in {frame.f_code.co_name}"
        waiting = waiting.cr_await
    return place


@contextmanager
def _collected() -> Iterator[None]:
    """Collect garbage between runs alone: destructors run code, and a collector has no seed."""
    enabled = gc.isenabled()
    gc.disable()
    with warnings.catch_warnings():
        # A process that was killed has closed nothing, and its objects say so when they are collected.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()
            if enabled:
                gc.enable()


def _let_go(error: BaseException | None) -> None:
    """Clear the frames of an exception and its causes: their variables would keep the whole cluster alive."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
