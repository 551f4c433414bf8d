"""``purgatorio simulate``: simulate clusters from seeds, and print faults, checks and anomalies."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Final

from purgatorio.purgatory.clock import Clock
from purgatorio.simulation import mutants
from purgatorio.simulation.checks.checkers import CHECKS
from purgatorio.simulation.checks.group_checkers import GROUP_CHECKS
from purgatorio.simulation.checks.internal_errors import INTERNAL_ERROR, MEANING
from purgatorio.simulation.checks.invariants import INVARIANTS
from purgatorio.simulation.checks.share_checkers import SHARE_CHECKS
from purgatorio.simulation.checks.sometimes import SOMETIMES
from purgatorio.simulation.checks.transaction_checkers import TRANSACTION_CHECKS
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import Acked, Failed, Fault, Polled, Sent, Unknown
from purgatorio.simulation.rules import CompiledFunction
from purgatorio.simulation.run import Scenario, SeedReport, has_share_group, has_transactions, simulate
from purgatorio.simulation.watch.failure import failures
from purgatorio.simulation.watch.recorder import Recorder
from purgatorio.simulation.world.nemesis import FAULTS

OTHERS: Final = {
    "unstable-group": "Soon after all faults, the members of a group did not own all partitions exactly once.",
    "not-converged": "The cluster did not recover after all faults were healed, or an operation stayed parked.",
    INTERNAL_ERROR: MEANING,
}
MAX_ANOMALIES_SHOWN: Final = 10
SEEDS_THAT_REACH_ALL: Final = 100
"""So many seeds of all faults have to reach each path of `SOMETIMES`, but for `RARE` ones: they come up once in about
twenty seeds, or more often."""
RARE: Final = {"out-of-order": 1_000}
"""The seeds that have to reach a path which comes up less often: "out-of-order" does once in about 200."""


class UsageError(Exception):
    """The command was called wrongly."""


def run(
    *,
    seed: int,
    seeds: int = 1,
    seconds: float = 20.0,
    faults: str = "",
    without: str | None = None,
    history: str | None = None,
    transactions: bool = False,
    share_groups: bool = False,
    tier: bool = False,
    watch_port: int | None = None,
) -> int:
    """Simulate one or several consecutive seeds.

    Args:
        seconds: the virtual time in which faults happen.
        faults: comma-separated names of faults; if empty, all.
        without: a rule to switch off.
        history: a file to write the history to, one JSON object a line; for one seed only.
        transactions: leave out the seeds without transactional clients, about three of four.
        share_groups: leave out the seeds without a share group, about six of seven.
        tier: give the seeds a tier, to which topics are copied; all else is as without it.
        watch_port: play the seed on the page at this port until Ctrl-C, 0: any free port; for one seed only.

    Returns:
        0 if every check passed, and enough seeds reached each of the rare paths, else 1.

    Raises:
        UsageError: a fault or the rule is unknown, `history` or `watch_port` is given with several seeds, or the port
            cannot be listened on.
    """
    scenario = Scenario(seconds=seconds, faults=_checked(faults), tier=tier)
    if without is not None:
        _check_rule(without)
    for option, given in (("--history", history), ("--watch", watch_port)):
        if given is not None and seeds != 1:
            raise UsageError(f"{option} is for one seed: leave out --seeds")
    recorder = None if watch_port is None else Recorder(f"seed {seed}")
    if without is not None:
        print(f"Without rule {mutants.describe(without)}\n")
    failed = 0
    reached: Counter[str] = Counter()
    wanted = [has for has, is_on in ((has_transactions, transactions), (has_share_group, share_groups)) if is_on]
    chosen = [each for each in range(seed, seed + seeds) if seeds == 1 or all(has(each, scenario) for has in wanted)]
    for each in chosen:
        with mutants.without(without) if without is not None else contextlib.nullcontext():
            report = simulate(each, scenario, watch=None if recorder is None else recorder.watch)
        failed += bool(report.anomalies)
        reached += report.reached
        if seeds == 1:
            _tell(report, history, recorder, watch_port or 0)
        elif report.anomalies:
            names = ", ".join(dict.fromkeys(anomaly.name for anomaly in report.anomalies))
            print(f"seed {each}: {names}   {_replay(report, without)}", flush=True)
    if seeds > 1:
        print(f"{len(chosen) - failed} of {len(chosen)} seeds passed all checks.")
    is_telling = scenario == Scenario() and without is None and not wanted
    expected = [path for path in SOMETIMES if is_telling and seeds >= RARE.get(path, SEEDS_THAT_REACH_ALL)]
    missed = [path for path in expected if not reached[path]]
    for path in missed:
        print(f"never reached: {path}   {SOMETIMES[path]}")
    return 1 if failed or missed else 0


def _tell(report: SeedReport, history: str | None, recorder: Recorder | None, port: int) -> None:
    """Print the report of the only seed, write its history, and play it, if that is asked for."""
    print_report(report)
    if history is not None:
        report.history.write(Path(history))
    if recorder is not None:
        play(report, recorder, port)


def play(report: SeedReport, recorder: Recorder, port: int) -> None:
    """Play a recorded simulation on the page until Ctrl-C.

    Raises:
        UsageError: the port cannot be listened on.
    """
    from purgatorio.simulation.watch.player import Player
    from purgatorio.simulation.watch.server import serve, why_not_listening

    failed = failures(report.anomalies, report.history, recorder.frames, recorder.seen)

    def player(clock: Clock) -> Player:
        return Player(f"seed {report.seed}", recorder.frames, report.history, failed, clock)

    def listening(url: str) -> None:
        print(f"\nThe page plays it: {url}   (Ctrl-C ends it)", flush=True)

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(player, port, listening))
    except OSError as error:
        raise UsageError(why_not_listening(port, error)) from None


def _checked(faults: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in faults.split(",") if name.strip())
    for name in names:
        if name not in FAULTS:
            raise UsageError(f"there is no fault {name!r}, only {', '.join(FAULTS)}")
    return names


def _check_rule(rule: str) -> None:
    if rule not in mutants.RULES:
        raise UsageError(f"there is no rule {rule!r}, only {', '.join(mutants.RULES)}")
    try:
        with mutants.without(rule):
            pass
    except CompiledFunction as error:
        raise UsageError(str(error)) from error


def _replay(report: SeedReport, without: str | None) -> str:
    """Return the command line that runs this seed again, and the version of Python; another's history may differ."""
    options = f" --without {without}" if without is not None else ""
    if report.scenario.seconds != Scenario().seconds:
        options += f" --seconds {report.scenario.seconds:g}"
    if report.scenario.tier:
        options += " --tier"
    if report.scenario.faults:
        options += f" --faults {','.join(report.scenario.faults)}"
    return f"purgatorio simulate --seed {report.seed}{options}   # Python {platform.python_version()}"


def print_report(report: SeedReport) -> None:
    """Print the faults, the number of operations, and the result of each check."""
    events = list(report.history)
    began_ms = events[0].time_ms if events else 0
    count: Counter[type[Event]] = Counter()
    print(f"Seed {report.seed}: {report.swarm.brokers} brokers, {report.virtual_seconds:.1f} virtual seconds\n")
    print(textwrap.indent(str(report.swarm), "  ") + "\n")
    for event in events:
        count[type(event)] += 1
        if isinstance(event, Fault):
            told = f"{count[Sent]} sent, {count[Acked]} acknowledged, {count[Polled]} polls"
            print(f"  {(event.time_ms - began_ms) / 1000:8.3f} s  {event.what:<44} ({told})")
    unsure = sum(1 for event in events if isinstance(event, (Unknown, Failed)))
    print(f"\n{count[Sent]} values sent, {count[Acked]} acknowledged, {unsure} given up by their producers.")
    print(f"History of {len(events)} events, SHA-256 {report.history.digest()}\n\nChecked:")
    wrong = Counter(anomaly.name for anomaly in report.anomalies)
    for name, meaning in {
        **CHECKS,
        **GROUP_CHECKS,
        **TRANSACTION_CHECKS,
        **SHARE_CHECKS,
        **INVARIANTS,
        **OTHERS,
    }.items():
        verdict = f"{wrong[name]} found" if wrong[name] else "none"
        print(f"  {name:<22} {verdict:<10} {meaning}")
    for anomaly in report.anomalies[:MAX_ANOMALIES_SHOWN]:
        print(f"\n{anomaly}", file=sys.stderr)
    if len(report.anomalies) > MAX_ANOMALIES_SHOWN:
        print(f"\nand {len(report.anomalies) - MAX_ANOMALIES_SHOWN} more", file=sys.stderr)
