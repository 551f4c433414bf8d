"""`simulate`: a scenario becomes a test of many seeds, or one run of a seed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from purgatorio.testing.simulate.errors import SimulationFailed
from purgatorio.testing.simulate.faults import checked_kinds
from purgatorio.testing.simulate.report import report
from purgatorio.testing.simulate.run import Options, Scenario, run_seed


def simulate(
    scenario: Scenario | None = None,
    /,
    *,
    seeds: int | Iterable[int] = 100,
    seed: int | None = None,
    faults: Iterable[str] = ("kill",),
    seconds: float = 10.0,
    brokers: int = 3,
    topics: Mapping[str, int] | None = None,
    settings: Mapping[str, object] | None = None,
    limit_seconds: float = 30.0,
) -> Any:
    """Make a test of a scenario, ``async def test_it(world)``: it runs the scenario once for each seed.

    With a scenario and a seed it runs that one, and returns what became of it: ``simulate(scenario, seed=7)``.

    The test is a plain function, for any runner; its further parameters are pytest's fixtures. It stops at the first
    seed that fails. ``test_it(seed=7)`` runs a single one.

    Args:
        seeds: how many, from 0 on; or which.
        faults: kinds of faults: "kill", "pause", "partition". They hit brokers and services alike.
        seconds: the virtual time in which faults happen.
        brokers: how many.
        topics: names of topics to create at the start, with their numbers of partitions.
        settings: broker settings by Kafka's names with underscores.
        limit_seconds: the real time that one seed may take.

    Raises:
        SimulationFailed: (the test) a seed failed; the message is its report.
        ValueError: there is no such fault.
    """
    chosen = Options(
        faults=checked_kinds(tuple(faults)),
        seconds=seconds,
        brokers=brokers,
        topics=dict(topics or {}),
        settings=dict(settings or {}),
        limit_seconds=limit_seconds,
    )
    if scenario is not None and seed is not None:
        return run_seed(getattr(scenario, "scenario", scenario), chosen, seed)
    all_seeds = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    made = functools.partial(_test_of, options=chosen, seeds=all_seeds)
    return made if scenario is None else made(scenario)


def _test_of(scenario: Scenario, *, options: Options, seeds: tuple[int, ...]) -> Callable[..., None]:
    """Return a plain function that runs the seeds; pytest sees the scenario's parameters without the world."""

    def test(*, seed: int | None = None, **fixtures: Any) -> None:
        for each in seeds if seed is None else (seed,):
            outcome = run_seed(functools.partial(scenario, **fixtures), options, each)
            if not outcome.passed:
                cause = outcome.failures[0].error
                raise SimulationFailed(each, report(outcome, scenario.__qualname__, _replay(scenario, each))) from cause

    functools.update_wrapper(test, scenario)
    del test.__dict__["__wrapped__"]  # pytest would look through it, and see `world`
    parameters = list(inspect.signature(scenario).parameters.values())[1:]
    test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    test.scenario = scenario  # type: ignore[attr-defined]
    return test


def _replay(scenario: Scenario, seed: int) -> str:
    return f'python -c "from {scenario.__module__} import {scenario.__name__} as test; test(seed={seed})"'
