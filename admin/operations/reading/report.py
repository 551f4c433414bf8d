"""The report of a failed test: the text that says why a client waits or gets nothing, at most `MAX_LINES` lines.

It is made of facts (`why/facts.py`), which may be those of several processes. First come the conclusions from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.conclusions import conclude
from purgatorio.admin.operations.reading.why.known import Conclusion, Facts, name_of, names_of, owned
from purgatorio.broker.causes.words import listed, plural, seconds, shortened
from purgatorio.broker.cluster.errors import NotThere
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.metadata.topic_name import is_internal

MAX_LINES: Final = 50
MAX_WIDTH: Final = 240
CONCLUSIONS_SHOWN: Final = 5
MAX_CONCLUSIONS: Final = 500
"""Conclusions of an answer."""
NAMES_COMPARED: Final = 1_000
"""Names of which the nearest to a wrong one is found."""
PARKED_SHOWN: Final = 12
ENDED_SHOWN: Final = 6
TOPICS_SHOWN: Final = 6
GROUPS_SHOWN: Final = 4
PARTITIONS_SHOWN: Final = 4
"""Partitions of each topic, and of each group."""
POSITIONS_SHOWN: Final = 8
REBALANCES_SHOWN: Final = 5
FAULTS_SHOWN: Final = 10
REQUESTS_SHOWN: Final = 8
IDLE_SHOWN: Final = 4
NO_REASON: Final = ": no reason given"
"""The end of the detail of a rebalance that is worth no words."""


def report_of(document: Answer, more: Iterable[str] = ()) -> str:
    """Return facts as text: conclusions, brokers, what waits, topics, groups, positions, faults, the last requests.

    Args:
        more: lines behind it.
    """
    facts = Facts(document)
    return text_of(facts, conclude(facts), more)


def text_of(facts: Facts, found: Sequence[Conclusion], more: Iterable[str] = ()) -> str:
    """Return what `report_of` does, with conclusions that are drawn."""
    lines = [line for each in SECTIONS for line in each(facts)]
    return bounded([*_first(found), *lines, *more])


def explained(document: Answer, name: str) -> Answer:
    """Return the conclusions about a group, a topic or a client id, with `text`: these, and what there is of it.

    Args:
        name: its name; "": all.

    Raises:
        NotThere: there is none of that name.
    """
    facts = Facts(document)
    return explanation(facts, name, conclude(facts, name))


def explanation(facts: Facts, name: str, found: Sequence[Conclusion]) -> Answer:
    """Return what `explained` does, with conclusions that are drawn; raises as it does."""
    if name and not found and name not in facts.names:
        hint = nearest(name, islice(facts.names, NAMES_COMPARED))
        raise NotThere(f"there is no group, topic or client {shortened(name)}{hint}")
    of_name = facts.about(name) if name else facts
    shown = _first(found) or [f"nothing is found that keeps {name or 'a client'} from what it wants"]
    lines = [line for each in (SECTIONS_OF_NAME if name else SECTIONS) for line in each(of_name)]
    return {
        "now_ms": facts.now_ms,
        "conclusions": [each._asdict() for each in found[:MAX_CONCLUSIONS]],
        "conclusion_count": len(found),
        "text": bounded([*shown, *lines]),
    }


def _first(found: Sequence[Conclusion]) -> list[str]:
    """Return the first lines of a report: the sentences that weigh most."""
    left_out = len(found) - CONCLUSIONS_SHOWN
    more = [f"… {left_out} more like these"] if left_out > 0 else []
    return [*(each.says for each in found[:CONCLUSIONS_SHOWN]), *more]


def bounded(lines: Sequence[str]) -> str:
    """Return lines as the text of a report, whose lines and their lengths have limits, and no control characters."""
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"… and {len(lines) - MAX_LINES + 1} more lines"]
    shown = map(_escaped, lines)
    return "\n".join(line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…" for line in shown)


def _escaped(line: str) -> str:
    """Return a line with escapes for characters that are not printed: clients choose their ids."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


def ago(at_ms: int, now_ms: int) -> str:
    """Return how long before now something was: "1.502 s ago"."""
    return f"{max(0, now_ms - at_ms) / 1000:.3f} s ago"


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


# --- brokers ---


def _brokers(facts: Facts) -> list[str]:
    document = facts.document
    lines = ["brokers: " + ", ".join(map(_broker, facts.brokers))]
    if document["clients"]:
        more = document["client_count"] - len(document["clients"])
        lines.append("connected clients: " + ", ".join(document["clients"]) + (f" and {more} more" if more > 0 else ""))
    return lines


def _broker(row: Answer) -> str:
    trouble = row.get("process", {}).get("trouble") or ""
    if not trouble and row["state"] != "running":
        trouble = "does not run"
    if trouble:
        return f"{row['id']} ({trouble})"
    words = [
        "held" if row["follower"] and row["follower"]["held"] else "",
        "paused" if row["paused"] else "",
        "cut off from " + " ".join(map(str, row["cut_off_from"])) if row["cut_off_from"] else "",
    ]
    stands = f" ({', '.join(filter(None, words))})" if any(words) else ""
    return f"{row['id']} at {row['host']}:{row['port']}{stands}"


# --- what waits, and what waited ---


def _parked(facts: Facts) -> list[str]:
    """Return what waits, but for sessions and for fetches of followers, of which each one has one."""
    if not facts.parked:
        return ["parked operations: none"]
    lines = []
    for each in facts.parked[:PARKED_SHOWN]:
        whose = f" of {each['client']}" if each["client"] else ""
        lines.append(
            f"broker {each['broker']} {each['purgatory']}{whose}, {each['waited_ms']} ms, "
            f"{max(0, each['remaining_ms'])} ms left: {each['missing'] or ', '.join(each['keys'])}"
        )
    left_out = facts.document["parked_count"] - len(lines)
    return section("parked operations, the longest waiting first", lines, left_out)


def _ended(facts: Facts) -> list[str]:
    """Return waits of clients that ended unmet, of each client and purgatory the last one."""
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in facts.ended:
        alike.setdefault((row["purgatory"], row["client"]), []).append(row)
    lines = []
    for last, *earlier in alike.values():
        more = f" ({len(earlier)} more like it before)" if earlier else ""
        lines.append(
            f"{ago(last['done_ms'], facts.now_ms)} broker {last['broker']} {last['purgatory']} of {last['client']}, "
            f"{last['outcome']} after {last['waited_ms']} ms: {last['detail'] or ', '.join(last['keys'])}{more}"
        )
    title = "waits that ended without what they waited for, the last one first"
    return section(title, lines[:ENDED_SHOWN], len(lines) - ENDED_SHOWN)


# --- what consumers read ---


def _topics(facts: Facts) -> list[str]:
    lines = [_topic(name, rows) for name, rows in facts.topics.items()]
    left_out = facts.document["topic_count"] - min(len(lines), TOPICS_SHOWN)
    return section("topics", lines[:TOPICS_SHOWN], left_out)


def _topic(name: str, rows: Sequence[Answer]) -> str:
    first = ", ".join(map(_partition, rows[:PARTITIONS_SHOWN]))
    more = len(rows) - PARTITIONS_SHOWN
    if more <= 0:
        return first
    count = sum(row["high_watermark"] - row["log_start_offset"] for row in rows[PARTITIONS_SHOWN:])
    return f"{first} and {plural(more, 'more partition')} of {name} with {plural(count, 'record')}"


def _partition(row: Answer) -> str:
    begins, ends = row["log_start_offset"], row["high_watermark"]
    name = name_of(row)
    if row["offline"]:
        return f"{name} has no leader"
    if begins == ends:
        text = f"{name} is empty" if not ends else f"{name} is empty, at offset {ends}"
    else:
        text = f"{name} ends at offset {ends}" + (f", begins at {begins}" if begins else "")
    if more := row["log_end_offset"] - ends:
        text += f", and {plural(more, 'record is', 'records are')} not replicated yet"
    if row["held_by"] is not None:
        text += f" (read_committed: at {row['last_stable_offset']}, {row['held_by']['says']})"
    return text


def _groups(facts: Facts) -> list[str]:
    lines = [line for group in facts.groups[:GROUPS_SHOWN] for line in _group(group)]
    return section("groups", lines, facts.document["group_count"] - GROUPS_SHOWN)


def _group(group: Answer) -> list[str]:
    kind = f"{group['type']}, {group['state']}, {plural(group['member_count'], 'member')}"
    waits = f": {group['waits_for']}" if group["waits_for"] else ""
    names = names_of(group)
    offsets = [_offset(row, names) for row in group["offsets"][:PARTITIONS_SHOWN]]
    more = len(group["offsets"]) - len(offsets)
    offsets += [f"and {plural(more, 'more partition')}"] if more > 0 else []
    idle = [names[each["member_id"]] for each in group["members"] if each["owned"] is not None and not owned(each)]
    without = [f"{listed(idle)} own{'s' * (len(idle) == 1)} no partition"] if idle else []
    lines = [f"{group['id']} ({kind}){waits}"]
    return [*lines, *([f"  {'; '.join([*offsets, *without])}"] if offsets or without else [])]


def _offset(row: Answer, names: Mapping[str, str]) -> str:
    owner = f"{names.get(row['owner'], row['owner'])}'s" if row["owner"] else "nobody's"
    committed = "no offset committed" if row["offset"] is None else f"committed {row['offset']} of {row['end_offset']}"
    return f"{name_of(row)} is {owner}, {committed}"


def _positions(facts: Facts) -> list[str]:
    newest = sorted(
        (each for each in facts.positions if not is_internal(each["topic"])), key=lambda each: -each["last_ms"]
    )
    lines = [_position(each, facts.now_ms) for each in newest] + [_share(each) for each in facts.document["shares"]]
    return section("consumers", lines[:POSITIONS_SHOWN], len(lines) - POSITIONS_SHOWN)


def _share(row: Answer) -> str:
    flight = f", {plural(row['in_flight'], 'record')} in flight" if row["in_flight"] else ""
    return f"share group {row['group']} reads {name_of(row)} next from offset {row['next_offset']}{flight}"


def _position(row: Answer, now_ms: int) -> str:
    isolation = f" ({row['isolation']})" if row["isolation"] else ""
    span = seconds(now_ms - row["since_ms"])
    last = f"for {span}, where its fetch waits"
    if not row["is_waiting"]:
        last = f"for {span}, and fetched last {seconds(now_ms - row['last_ms'])} ago"
    wants = row["min_bytes"] is not None and row["min_bytes"] > 1
    wants_bytes = f", has {row['available_bytes']} of fetch.min.bytes={row['min_bytes']}" if wants else ""
    return f"{row['client']} reads {name_of(row)} at offset {row['offset']}{isolation} {last}{wants_bytes}"


def _rebalances(facts: Facts) -> list[str]:
    found = [(began["at_ms"], group["id"], began) for group in facts.groups for began in group["rebalances"]]
    found.sort(key=lambda each: -each[0])
    lines = [
        f"{ago(at_ms, facts.now_ms)} {name}, {plural(began['member_count'], 'member')}: {began['cause']}"
        f"{': ' + detail if (detail := began['detail'].removesuffix(NO_REASON)) else ''}"
        for at_ms, name, began in found[:REBALANCES_SHOWN][::-1]
    ]
    return section("last rebalances", lines, 0, len(found) - REBALANCES_SHOWN)


# --- faults and requests ---


def _faults(facts: Facts) -> list[str]:
    document = facts.document
    rules = [f"{each['id']}: {each['text']}: {_counted(each)}" for each in document["faults"]]
    fired = [_fired(each, facts.now_ms) for each in document["fired"][:FAULTS_SHOWN][::-1]]
    return [
        *section("fault rules", rules[:FAULTS_SHOWN], len(rules) - FAULTS_SHOWN),
        *section("faults that fired", fired, 0, document["fired_count"] - FAULTS_SHOWN),
    ]


def _fired(row: Answer, now_ms: int) -> str:
    client = f" of {row['client']}" if row["client"] else ""
    partitions = f" for {', '.join(row['partitions'])}" if row["partitions"] else ""
    place = f"fault {row['rule']} on broker {row['broker']}"
    return f"{ago(row['at_ms'], now_ms)} {place}: {row['api']}{client}{partitions}: {row['action']}"


def _counted(row: Answer) -> str:
    if row["fired"]:
        return f"fired {plural(row['fired'], 'time')}"
    noun = "connection" if "toxic" in row["rule"] else "call" if "tier" in row["rule"] else "request"
    return f"matched {row['matched']} {noun}s, never fired" if row["matched"] else f"matched no {noun}"


def _requests(facts: Facts) -> list[str]:
    document = facts.document
    lines = [
        f"{ago(each['at_ms'], facts.now_ms)} broker {each['broker']}: {each['api']} of {_client(each)}"
        f"{' for ' + ', '.join(each['topics']) if each['topics'] else ''}: {', '.join(each['errors']) or each['ended']}"
        for each in document["requests"][-REQUESTS_SHOWN:]
    ]
    idle = sorted(document["idle_requests"], key=lambda each: -each["last_ms"])
    if idle:
        shown = [_idle(each) for each in idle[:IDLE_SHOWN]]
        more = len(idle) - len(shown)
        lines.append("and without news: " + ", ".join(shown) + (f" and {more} more kinds" if more > 0 else ""))
    return section("last requests", lines, 0, document["request_count"] - REQUESTS_SHOWN)


def _client(row: Answer) -> str:
    return str(row["client"]) or "a client without id"


def _idle(row: Answer) -> str:
    is_fetch = row["api"].endswith("Fetch")
    noun = plural(row["count"], row["api"], f"{row['api']}{'es' if is_fetch else 's'}")
    result = " found nothing" if is_fetch else f" ({', '.join(row['errors'])})" if row["errors"] else ""
    return f"{noun} of {_client(row)}{result}"


SECTIONS: Final[tuple[Callable[[Facts], list[str]], ...]] = (
    _brokers,
    _parked,
    _ended,
    _topics,
    _groups,
    _positions,
    _rebalances,
    _faults,
    _requests,
)
"""The parts of the report, in order; each returns its lines."""
SECTIONS_OF_NAME: Final = (_topics, _groups, _positions, _rebalances, _parked, _ended, _requests)
"""The same about one group, topic or client."""
