"""`simulate`: a scenario becomes a test of many seeds, or one run of a seed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Any, Final

from purgatorio.testing.simulate.determinism import twins
from purgatorio.testing.simulate.errors import SimulationFailed
from purgatorio.testing.simulate.faults import Plan, PlannedFault, checked_kinds
from purgatorio.testing.simulate.outcome import Outcome
from purgatorio.testing.simulate.report import report
from purgatorio.testing.simulate.run import Options, Scenario, run_seed
from purgatorio.testing.simulate.seeding import Seeding, current_seeding
from purgatorio.testing.simulate.shrink import Shrunk, shrunk

SHRINK_SECONDS: Final = 10.0
"""The CPU time that a failing seed may take to shrink, by default."""

Faults = Iterable[PlannedFault | tuple[float, str, float, float]]


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
    shrink_seconds: float = SHRINK_SECONDS,
    check_determinism: bool = False,
) -> Any:
    """Make a test of a scenario, ``async def test_it(world)``: it runs the scenario once for each seed.

    With a scenario and a seed it runs that one, and returns what became of it: ``simulate(scenario, seed=7)``. A
    test's own options hold, but for those that differ here from the defaults.

    The test is a plain function, for any runner; its further parameters are pytest's fixtures. It stops at the first
    seed that fails, and leaves out faults as long as the same check fails without them. ``test_it(seed=7)`` runs a
    single one, and ``test_it(seed=7, plan=[…])`` one with the faults of a report.

    Args:
        seeds: how many, from 0 on; or which.
        faults: kinds of faults: "kill", "pause", "partition". They hit brokers and services alike.
        seconds: the virtual time in which faults happen.
        brokers: how many.
        topics: names of topics to create at the start, with their numbers of partitions.
        settings: broker settings by Kafka's names with underscores.
        limit_seconds: the CPU time that one seed may take.
        shrink_seconds: the CPU time in which the faults of a failing seed are shrunk; 0 leaves them as they are.
        check_determinism: run each seed in two other processes first, step by step, which takes three times as long.

    Raises:
        SimulationFailed: (the test) a seed failed; the message is its report. So does a seed that takes different ways
            in two processes.
        ValueError: there is no such fault, or a number makes no sense.
        TypeError: the scenario is no ``async def`` with a parameter for the world.
    """
    chosen = Options(
        faults=checked_kinds(faults),
        seconds=seconds,
        brokers=brokers,
        topics=dict(topics or {}),
        settings=dict(settings or {}),
        limit_seconds=limit_seconds,
    )
    _check(chosen)
    if scenario is not None and seed is not None:
        own: Options = getattr(scenario, "options", Options())
        return run_seed(_checked(getattr(scenario, "scenario", scenario)), _over(own, chosen), seed)
    all_seeds = range(seeds) if isinstance(seeds, int) else tuple(seeds)
    if not all_seeds:
        raise ValueError(f"a test without seeds tests nothing: seeds={seeds!r}")
    made = functools.partial(
        _test_of, options=chosen, seeds=all_seeds, shrink_seconds=shrink_seconds, check_determinism=check_determinism
    )
    return made if scenario is None else made(scenario)


def _check(options: Options) -> None:
    for name in ("brokers", "limit_seconds"):
        if getattr(options, name) <= 0:
            raise ValueError(f"{name} must be more than 0, not {getattr(options, name)!r}")
    if options.seconds < 0:
        raise ValueError(f"seconds must not be negative, and is {options.seconds!r}")


def _over(own: Options, given: Options) -> Options:
    """Return a test's own options, with those that differ from the defaults in their place."""
    plain = Options()
    names = [each.name for each in fields(Options)]
    return replace(own, **{name: new for name in names if (new := getattr(given, name)) != getattr(plain, name)})


def _checked(scenario: Scenario) -> Scenario:
    """Return a scenario that can be run.

    Raises:
        TypeError: it is no coroutine function, or takes no world.
    """
    name = getattr(scenario, "__qualname__", repr(scenario))
    if not inspect.iscoroutinefunction(scenario):
        raise TypeError(f"a scenario is an async function, async def {name}(world); {name} is none")
    if not inspect.signature(scenario).parameters:
        raise TypeError(f"a scenario takes the world: async def {name}(world)")
    return scenario


def _test_of(
    scenario: Scenario, *, options: Options, seeds: Sequence[int], shrink_seconds: float, check_determinism: bool
) -> Callable[..., None]:
    """Return a plain function that runs the seeds; pytest sees the scenario's parameters without the world."""
    _checked(scenario)

    parameters = list(inspect.signature(scenario).parameters.values())
    own = 1 if parameters[0].name == "self" else 0  # a method of a test class

    def test(*instance: Any, seed: int | None = None, plan: Faults | None = None, **fixtures: Any) -> None:
        __tracebackhide__ = True  # the report has all that the frames of this library would show
        seeding = Seeding(only=(seed,)) if seed is not None else current_seeding()
        bound = functools.partial(scenario, *instance, **fixtures)
        faults = None if plan is None else planned(plan)
        with twins(scenario, options) if check_determinism else nullcontext() as pair:
            for each in seeding.within_budget(seeding.order(seeds)):
                if pair is not None:
                    pair.check(each)
                outcome = run_seed(bound, options, each, faults)
                seeding.note(each, passed=outcome.passed)
                if not outcome.passed:
                    again = functools.partial(run_seed, bound, options, each)
                    less = shrunk(outcome, again, budget_seconds=shrink_seconds)
                    raise SimulationFailed(each, _report(scenario, outcome, less, seeding.replay)) from None

    functools.update_wrapper(test, scenario)
    del test.__dict__["__wrapped__"]  # pytest would look through it, and see `world`
    made: Any = test
    made.__signature__ = inspect.Signature(parameters[:own] + parameters[own + 1 :])
    made.scenario, made.options, made.seeds = scenario, options, seeds
    return test


def planned(faults: Faults) -> Plan:
    """Return a plan of faults, each a `PlannedFault` or its values, as a report prints them.

    Raises:
        ValueError: there is no such fault.
        TypeError: one is not (at_seconds, kind, aim, seconds).
    """
    plan = tuple(each if isinstance(each, PlannedFault) else PlannedFault(*each) for each in faults)
    checked_kinds([fault.kind for fault in plan])
    return plan


def _report(scenario: Scenario, found: Outcome, less: Shrunk, pytest_line: str | None) -> str:
    name = scenario.__name__
    call = f'python -c "from {scenario.__module__} import {name} as test; test(%s)"'
    if scenario.__qualname__ != name:  # a method, or made within a function: no other process can import it
        call = f"{name}(%s)"
    seed = f"seed={found.seed}"
    replay = call % seed if pytest_line is None else f"{pytest_line}{found.seed}"
    return report(less, scenario.__qualname__, replay, call % f"{seed}, plan={_literal(less.outcome.plan)}")


def _literal(plan: Plan) -> str:
    """Return a plan as it is given to a test, within the double quotes of a shell."""
    return repr([(fault.at_seconds, fault.kind, fault.aim, fault.seconds) for fault in plan])
