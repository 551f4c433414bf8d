"""What a cluster was waiting for: the text that a failed test shows, at most `MAX_LINES` lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from purgatorio.broker.layers.faults import ToxicRule
from purgatorio.broker.node.broker import Broker
from purgatorio.testing.controls import Controls, is_broker

if TYPE_CHECKING:
    from purgatorio.testing.process_controls import ProcessControls

MAX_LINES: Final = 50
MAX_WIDTH: Final = 240
PARKED_SHOWN: Final = 12
CHANGES_SHOWN: Final = 10
FAULTS_SHOWN: Final = 10
REQUESTS_SHOWN: Final = 8


def report(controls: Controls | ProcessControls) -> str | Awaitable[str]:
    """Return the state of a cluster as text; runs in the cluster's loop."""
    if not isinstance(controls, Controls):
        return controls.report()
    lines = [line for section in SECTIONS for line in section(controls)]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"… and {len(lines) - MAX_LINES + 1} more lines"]
    return "\n".join(line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…" for line in lines)


def _brokers(controls: Controls) -> list[str]:
    cluster = controls.cluster
    running = {broker.broker_id: broker for broker in cluster.brokers}
    shown = []
    for broker_id in cluster.broker_ids:
        broker = running.get(broker_id)
        if broker is None:
            shown.append(f"{broker_id} (does not run)")
        else:
            shown.append(f"{broker_id} at {broker.address[0]}:{broker.address[1]}{_stands(controls, broker)}")
    lines = ["brokers: " + ", ".join(shown)]
    if clients := controls.clients():
        lines.append("connected clients: " + ", ".join(clients))
    return lines


def _stands(controls: Controls, broker: Broker) -> str:
    """Return how a test holds a broker back."""
    network = controls.cluster.network
    words = [
        "held" if broker.gate.held else "",
        "paused" if broker.broker_id in network.paused else "",
        "cut off from " + " ".join(map(str, cut)) if (cut := network.cut_off_from(broker.broker_id)) else "",
    ]
    return f" ({', '.join(filter(None, words))})" if any(words) else ""


def _parked(controls: Controls) -> list[str]:
    """Return what waits; fetches of followers are only counted, as each idle follower has one."""
    everything = sorted(controls.parked(), key=lambda each: -each.waited_ms)
    parked = [each for each in everything if not is_broker(each.client)]
    if not parked:
        return ["parked operations: none"]
    lines = []
    for each in parked[:PARKED_SHOWN]:
        whose = f" of {each.client}" if each.client else ""
        lines.append(
            f"broker {each.broker} {each.purgatory}{whose}, {each.waited_ms} ms, {each.left_ms} ms left: "
            f"{each.missing or ', '.join(each.keys)}"
        )
    return section("parked operations, the longest waiting first", lines, len(parked) - PARKED_SHOWN)


def _changes(controls: Controls) -> list[str]:
    changes = controls.timeline.changes
    lines = [f"at {each.at_ms / 1000:.3f} s {each.partition}: {each.what}" for each in changes]
    return section("changes of leaders and ISR", lines[-CHANGES_SHOWN:], 0, len(lines) - CHANGES_SHOWN)


def _faults(controls: Controls) -> list[str]:
    faults = controls.cluster.faults
    rules = [
        f"{live.id}: {live.rule}: "
        f"{_counted(live.fired, live.matched, 'connection' if isinstance(live, ToxicRule) else 'request')}"
        for live in faults.rules
    ]
    fired = [
        f"at {each.at_ms / 1000:.3f} s fault {each.rule} on broker {each.broker}: {each.api} of {each.client}"
        f"{' for ' + ', '.join(each.partitions) if each.partitions else ''}: {each.action}"
        for each in list(faults.fired)[-FAULTS_SHOWN:]
    ]
    earlier = len(faults.fired) - FAULTS_SHOWN
    return [
        *section("fault rules", rules[:FAULTS_SHOWN], len(rules) - FAULTS_SHOWN),
        *section("faults that fired", fired, 0, earlier),
    ]


def _requests(controls: Controls) -> list[str]:
    log = controls.cluster.faults.log
    entries = list(log.entries) if log is not None else []
    lines = [
        f"at {each.at_ms / 1000:.3f} s broker {each.broker}: {each.api} of {each.client or 'a client without id'}"
        f"{' for ' + ', '.join(each.topics) if each.topics else ''}: {', '.join(each.errors) or each.ended}"
        for each in entries[-REQUESTS_SHOWN:]
    ]
    return section("last requests", lines, 0, len(entries) - REQUESTS_SHOWN)


def _counted(fired: int, matched: int, what: str) -> str:
    if fired:
        return f"fired {fired} time{'s' * (fired > 1)}"
    return f"matched {matched} {what}s, never fired" if matched else f"matched no {what}"


def section(title: str, lines: Iterable[str], later: int = 0, earlier: int = 0) -> list[str]:
    """Return a title and indented lines; nothing if there are none.

    Args:
        later, earlier: how many lines behind and before these are left out; negative: none.
    """
    shown = [f"  {line}" for line in lines]
    if not shown:
        return []
    before = [f"  … {earlier} earlier"] if earlier > 0 else []
    behind = [f"  … {later} more"] if later > 0 else []
    return [f"{title}:", *before, *shown, *behind]


SECTIONS: Final[tuple[Callable[[Controls], list[str]], ...]] = (_brokers, _parked, _faults, _requests, _changes)
"""The parts of the report, in order; each returns its lines."""
