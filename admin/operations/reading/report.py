"""The report of a failed test: the text that says why requests waited, at most `MAX_LINES` lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from purgatorio.admin.operations.reading.members import connected_clients
from purgatorio.broker.causes.kinds import KINDS
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.faults import LiveToxic
from purgatorio.broker.routing.request import is_of_broker

if TYPE_CHECKING:
    from purgatorio.broker.cluster.cluster import BrokerCluster
    from purgatorio.broker.node.broker import Broker

MAX_LINES: Final = 50
MAX_WIDTH: Final = 240
PARKED_SHOWN: Final = 12
PARKED_READ: Final = 1_000
"""Parked operations of one purgatory that are looked at."""
FAULTS_SHOWN: Final = 10
REQUESTS_SHOWN: Final = 8

Section = Callable[["BrokerCluster"], list[str]]


def report_of(cluster: BrokerCluster, more: Iterable[str] = ()) -> str:
    """Return the state of a cluster as text: its brokers, who is connected, what waits, faults, the last requests.

    Args:
        more: lines behind it.
    """
    lines = [*(line for each in SECTIONS for line in each(cluster)), *more]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"… and {len(lines) - MAX_LINES + 1} more lines"]
    return "\n".join(line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…" for line in lines)


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


def _brokers(cluster: BrokerCluster) -> list[str]:
    running = {broker.broker_id: broker for broker in cluster.brokers}
    shown = []
    for broker_id in cluster.broker_ids:
        broker = running.get(broker_id)
        if broker is None:
            shown.append(f"{broker_id} (does not run)")
        else:
            shown.append(f"{broker_id} at {broker.address[0]}:{broker.address[1]}{_stands(cluster, broker)}")
    lines = ["brokers: " + ", ".join(shown)]
    if clients := connected_clients(cluster.brokers):
        lines.append("connected clients: " + ", ".join(clients))
    return lines


def _stands(cluster: BrokerCluster, broker: Broker) -> str:
    """Return how a broker is held back."""
    network = cluster.network
    words = [
        "held" if broker.gate.held else "",
        "paused" if broker.broker_id in network.paused else "",
        "cut off from " + " ".join(map(str, cut)) if (cut := network.cut_off_from(broker.broker_id)) else "",
    ]
    return f" ({', '.join(filter(None, words))})" if any(words) else ""


def _parked(cluster: BrokerCluster) -> list[str]:
    """Return what waits; fetches of followers are left out, as each idle follower has one."""
    found = []
    for broker in cluster.brokers:
        for purgatory in broker.purgatories:
            if KINDS[purgatory.name].is_idle:
                continue
            now_ms = purgatory.now_ms()
            found += [
                (now_ms - each.parked_ms, each.deadline_ms - now_ms, broker.broker_id, each)
                for each in purgatory.operations(limit=PARKED_READ)
                if not is_of_broker(each.client)
            ]
    if not found:
        return ["parked operations: none"]
    found.sort(key=lambda each: -each[0])
    lines = []
    for waited_ms, left_ms, broker_id, each in found[:PARKED_SHOWN]:
        whose = f" of {each.client}" if each.client else ""
        lines.append(
            f"broker {broker_id} {each.purgatory}{whose}, {waited_ms} ms, {left_ms} ms left: "
            f"{in_words(each.causes) or ', '.join(map(str, each.keys))}"
        )
    return section("parked operations, the longest waiting first", lines, len(found) - PARKED_SHOWN)


def _faults(cluster: BrokerCluster) -> list[str]:
    faults = cluster.faults
    rules = [
        f"{live.id}: {live.rule}: "
        f"{_counted(live.fired, live.matched, 'connection' if isinstance(live, LiveToxic) else 'request')}"
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


def _requests(cluster: BrokerCluster) -> list[str]:
    log = cluster.faults.log
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


SECTIONS: Final[tuple[Section, ...]] = (_brokers, _parked, _faults, _requests)
"""The parts of the report, in order; each returns its lines."""
