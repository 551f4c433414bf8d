"""The report of a failed test: the text that says why requests waited, at most `MAX_LINES` lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.reading.members import connected_clients
from purgatorio.admin.operations.reading.parked import ParkedRow, read_parked
from purgatorio.broker.cluster.decisions import newest
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
ENDED_LOOKED_AT: Final = 300
"""Operations that ended last, among which those of clients are shown."""
ENDED_SHOWN: Final = 6
FAULTS_SHOWN: Final = 10
REQUESTS_SHOWN: Final = 8

Section = Callable[["BrokerCluster"], list[str]]


def report_of(cluster: BrokerCluster, more: Iterable[str] = ()) -> str:
    """Return the state of a cluster as text: its brokers, who is connected, what waits, faults, the last requests.

    Args:
        more: lines behind it.
    """
    return bounded([*(line for each in SECTIONS for line in each(cluster)), *more])


def bounded(lines: Sequence[str]) -> str:
    """Return lines as the text of a report, whose lines and their lengths have limits."""
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
    return first_lines(shown, connected_clients(cluster.brokers))


def first_lines(brokers: Sequence[str], clients: Sequence[str]) -> list[str]:
    """Return the lines of a report that say which brokers and clients there are."""
    return ["brokers: " + ", ".join(brokers), *(["connected clients: " + ", ".join(clients)] if clients else [])]


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
    transactions = TransactionControl(cluster, lambda: newest(cluster.network).image)
    return parked_waits(read_parked(cluster.brokers, transactions, None, None, None, PARKED_READ))


def parked_waits(rows: Iterable[ParkedRow]) -> list[str]:
    """Return the section of what waits, but for sessions and for fetches of followers, of which each one has one."""
    found = sorted((each for each in rows if not is_of_broker(each.client)), key=lambda each: -each.waited_ms)
    if not found:
        return ["parked operations: none"]
    lines = []
    for each in found[:PARKED_SHOWN]:
        whose = f" of {each.client}" if each.client else ""
        lines.append(
            f"broker {each.broker} {each.purgatory}{whose}, {each.waited_ms} ms, {each.remaining_ms} ms left: "
            f"{each.missing or ', '.join(each.keys)}"
        )
    return section("parked operations, the longest waiting first", lines, len(found) - PARKED_SHOWN)


def _ended(cluster: BrokerCluster) -> list[str]:
    from purgatorio.admin.operations.reading.state import read_finished

    return ended_waits(read_finished(cluster.brokers, ENDED_LOOKED_AT))


def ended_waits(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the section of waits of clients that ended unmet, of each client and purgatory the last one.

    Args:
        rows: operations that ended, newest first, as the operation Finished lists them.
    """
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["outcome"] != "completed" and row["client"] and not is_of_broker(row["client"]):
            alike.setdefault((row["purgatory"], row["client"]), []).append(row)
    lines = []
    for last, *earlier in alike.values():
        more = f" ({len(earlier)} more like it before)" if earlier else ""
        lines.append(
            f"at {last['done_ms'] / 1000:.3f} s broker {last['broker']} {last['purgatory']} of {last['client']}, "
            f"{last['outcome']} after {last['waited_ms']} ms: {last['detail'] or ', '.join(last['keys'])}{more}"
        )
    title = "waits that ended without what they waited for, the last one first"
    return section(title, lines[:ENDED_SHOWN], len(lines) - ENDED_SHOWN)


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


SECTIONS: Final[tuple[Section, ...]] = (_brokers, _parked, _ended, _faults, _requests)
"""The parts of the report, in order; each returns its lines."""
