"""The views: what each asks the admin HTTP, and the rows that it makes of the answer. Nothing here draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from purgatorio.admin.cli.top.rows import Answer, Deed, Row, cells, fields_of, seconds
from purgatorio.admin.operations.brokers import ChangeFollower, KillBroker
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.faults import ListFaults, ReleaseFault
from purgatorio.admin.operations.groups import ExpireMember, ListGroups
from purgatorio.admin.operations.purgatories import Expire, Matrix, State
from purgatorio.admin.operations.share_groups import ExpireLocks, ListShareGroups
from purgatorio.admin.operations.transactions import ExpireTransaction, ListTransactions
from purgatorio.broker.causes.kinds import FOLLOWER_FETCH, named

OPERATIONS: Final = 200
"""Parked operations of each purgatory that are asked for."""
BAR: Final = 40
"""The longest bar of a bucket."""


class View(NamedTuple):
    """A view.

    Attributes:
        name: what is typed behind a colon.
        says: what it shows, for its help.
        asks: the operation of the admin HTTP that it shows, with what is given to it.
        rows: makes rows of the answer.
        nothing: what is shown if there are none.
    """

    name: str
    says: str
    asks: type[Operation]
    columns: Sequence[str]
    rows: Callable[[Answer], Iterator[Row]]
    nothing: str
    given: Mapping[str, Any] = MappingProxyType({})


# --- what waits ---


def _parked(state: Answer) -> Iterator[Row]:
    """Yield a line for each cause, the worst first; then one for each operation, those of clients first."""
    for wait in sorted(state["waits"], key=lambda each: bool(each["ordinary"])):
        yield _cause(wait)
    found = [
        (broker, purgatory["name"], operation)
        for broker in state["brokers"]
        for purgatory in broker["purgatories"]
        for operation in purgatory["operations"]
    ]
    for broker, name, operation in sorted(found, key=_rank):
        yield _operation(broker, name, operation)


def _rank(found: tuple[Answer, str, Answer]) -> tuple[int, int, int, int]:
    broker, purgatory, operation = found
    order = int(operation["kind"] == FOLLOWER_FETCH.noun) if named(purgatory).has_requests else 2
    return order, -operation["waited_ms"], broker["id"], operation["id"]


def _cause(wait: Answer) -> Row:
    counted = ", ".join(f"{number} {kind}" for kind, number in wait["counts"].items())
    deeds = {}
    if wait["ways"]:
        way = wait["ways"][0]
        deeds["r"] = Deed(way["does"], way["path"], way["body"])
    if len(wait["broker_ids"]) == 1:
        deeds |= {key: deed for key, deed in _of_broker(wait["broker_ids"][0]).items() if key not in ("r", *deeds)}
    ways = [f"r: {wait['ways'][0]['does']}"] if wait["ways"] else []
    facts = fields_of(wait, without=("says", "ways", "missing", "ordinary"))
    return Row(
        f"cause {wait['kind']} {wait['actor']}",
        cells(counted, "", seconds(wait["waited_ms"]), seconds(wait["remaining_ms"]), wait["says"]),
        (*cells(wait["says"], *ways), "", *facts),
        deeds,
        "" if wait["ordinary"] else "head",
    )


def _operation(broker: Answer, purgatory: str, operation: Answer) -> Row:
    number, name = broker["id"], f"{purgatory} {operation['id']} of broker {broker['id']}"
    why = operation["missing"] or "an event on its keys"
    more = operation["key_count"] - len(operation["keys"])
    keys = ", ".join(operation["keys"]) + (f" and {more} more" if more > 0 else "")
    return Row(
        f"{number}/{purgatory}/{operation['id']}",
        cells(
            f"  {purgatory} {operation['id']} on {number}",
            operation["client"] or None,
            seconds(operation["waited_ms"]),
            seconds(operation["remaining_ms"]),
            why,
        ),
        (
            *cells(
                f"{name} waits for: {why}",
                f"client: {operation['client'] or '-'}",
                f"keys: {keys}",
                f"parked {seconds(operation['waited_ms'])} ago, deadline in {seconds(operation['remaining_ms'])}",
                f"checked {operation['checks']} times",
            ),
            "",
            *fields_of({"causes": operation["causes"]}),
        ),
        {"x": Deed.of(f"expire {name}", Expire, id=number, name=purgatory, operation=operation["id"])},
    )


# --- brokers, partitions, the wheel ---


def _of_broker(broker_id: int) -> dict[str, Deed]:
    return {
        "h": Deed.of(f"hold the fetches of broker {broker_id}", ChangeFollower, id=broker_id, held=True),
        "r": Deed.of(f"release the fetches of broker {broker_id}", ChangeFollower, id=broker_id, held=False),
        "k": Deed.of(f"kill broker {broker_id}", KillBroker, id=broker_id),
    }


def _brokers(state: Answer) -> Iterator[Row]:
    for row in state["brokers"]:
        follower = row["follower"] or {"held": False, "delay_ms": 0}
        fetches = "held" if follower["held"] else f"+{follower['delay_ms']} ms" if follower["delay_ms"] else ""
        waiting = sum(each["num_delayed"] for each in row["purgatories"] if named(each["name"]).has_requests)
        trouble = [name for name in ("paused", "fenced") if row[name]] + [f"cut off: {row['cut_off_from']}"] * bool(
            row["cut_off_from"]
        )
        yield Row(
            str(row["id"]),
            cells(
                row["id"], row["state"], f"{row['host']}:{row['port']}", "yes" if row["controller"] else "",
                row["connections"], waiting, fetches, ", ".join(trouble),
            ),
            fields_of({**row, "purgatories": {each["name"]: each["num_delayed"] for each in row["purgatories"]}}),
            _of_broker(row["id"]),
            "bad" if row["state"] != "running" or trouble or fetches else "",
        )  # fmt: skip


def _partitions(matrix: Answer) -> Iterator[Row]:
    for topic, partition, leader, epoch, state, replicas in matrix["rows"]:
        said = [f"{broker}{_lag(lag, in_sync, broker == leader)}" for broker, lag, in_sync in replicas]
        name = f"{topic}-{partition}"
        facts = [
            {"broker": broker, "leads": broker == leader, "in_sync": bool(in_sync), "lacks": None if lag < 0 else lag}
            for broker, lag, in_sync in replicas
        ]
        yield Row(
            name,
            cells(name, None if leader < 0 else leader, epoch, "  ".join(said), state),
            fields_of(
                {"partition": name, "leader": None if leader < 0 else leader, "leader_epoch": epoch, "replicas": facts}
            ),
            {},
            "bad" if state == "offline" else "head" if state else "",
        )


def _lag(lag: int, in_sync: int, leads: bool) -> str:
    return "*" if leads else ("" if in_sync else "!") + (f" -{lag}" if lag > 0 else "")


def _wheel(state: Answer) -> Iterator[Row]:
    for broker in state["brokers"]:
        for purgatory in broker["purgatories"]:
            for level in purgatory["wheel"]:
                for bucket in level["buckets"]:
                    left = bucket["expiration_ms"] - state["now_ms"]
                    yield Row(
                        f"{broker['id']}/{purgatory['name']}/{level['tick_ms']}/{bucket['expiration_ms']}",
                        cells(
                            broker["id"], purgatory["name"], f"{level['tick_ms']} ms", seconds(left), bucket["entries"],
                            "█" * min(BAR, bucket["entries"]),
                        ),
                        fields_of({**level, "buckets": [bucket]}),
                    )  # fmt: skip


# --- groups, transactions, faults ---


def _groups(answer: Answer) -> Iterator[Row]:
    for row in answer["groups"]:
        yield Row(
            row["id"],
            cells(
                row["id"], row["type"], row["state"], row["epoch"], row["coordinator"], row["member_count"], row["lag"],
                row.get("waits_for", ""),
            ),
            (*cells(row.get("waits_for") or f"group {row['id']}"), "", *fields_of(row)),
            {"x": Deed.of(f"end the session of the member of group {row['id']}", ExpireMember, id=row["id"])},
            "head" if "Rebalance" in row["state"] or row["state"] in ("Assigning", "Reconciling") else "",
        )  # fmt: skip


def _transactions(answer: Answer) -> Iterator[Row]:
    for row in answer["transactions"]:
        is_open = row["state"] == "Ongoing"
        yield Row(
            row["id"],
            cells(
                row["id"], row["state"], row["producer_id"], row["producer_epoch"], row["coordinator"],
                seconds(row["open_ms"]), seconds(row["timeout_left_ms"]), row["partition_count"], row["waits_for"],
            ),
            (*cells(row["waits_for"] or f"transactional id {row['id']}"), "", *fields_of(row)),
            {"x": Deed.of(f"end the time of the transaction of {row['id']}", ExpireTransaction, id=row["id"])}
            if is_open
            else {},
            "head" if is_open or row["waits_for"] else "",
        )  # fmt: skip


def _share_groups(answer: Answer) -> Iterator[Row]:
    for row in answer["share_groups"]:
        counted = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.items() if name != "id")
        yield Row(
            row["id"],
            cells(row["id"], counted),
            fields_of(row),
            {"x": Deed.of(f"end the acquisition locks of {row['id']}", ExpireLocks, id=row["id"])},
        )


def _faults(answer: Answer) -> Iterator[Row]:
    for row in answer["faults"]:
        yield Row(
            str(row["id"]),
            cells(row["id"], row["text"], row["matched"], row["fired"], row["held"] or ""),
            fields_of(row),
            {"r": Deed.of(f"release fault {row['id']}, and remove it", ReleaseFault, id=row["id"])},
            "head" if row["held"] else "",
        )


VIEWS: Final[dict[str, View]] = {
    each.name: each
    for each in (
        View(
            "parked",
            "What waits: a line for each cause, the worst first, and one for each operation.",
            State,
            ("WHAT", "CLIENT", "WAITED", "LEFT", "WHY"),
            _parked,
            "Nothing waits.",
            {"operations": OPERATIONS, "partitions": ""},
        ),
        View(
            "groups",
            "Groups with their states, members and lag.",
            ListGroups,
            ("GROUP", "TYPE", "STATE", "EPOCH", "COORD", "MEMBERS", "LAG", "WAITS FOR"),
            _groups,
            "There is no group.",
        ),
        View(
            "txn",
            "Transactional ids, the oldest open transaction first.",
            ListTransactions,
            ("TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "COORD", "OPEN", "LEFT", "PARTITIONS", "WAITS FOR"),
            _transactions,
            "There is no transactional id.",
        ),
        View(
            "share",
            "Share groups: what their members have acquired.",
            ListShareGroups,
            ("SHARE GROUP", "RECORDS"),
            _share_groups,
            "There is no share group.",
        ),
        View(
            "brokers",
            "Brokers: whether they run, whose fetches are held, and how much waits there.",
            State,
            ("ID", "STATE", "ADDRESS", "CTRL", "CONNS", "WAIT", "FETCHES", "TROUBLE"),
            _brokers,
            "There is no broker.",
            {"operations": 0, "partitions": ""},
        ),
        View(
            "partitions",
            "Partitions, up to 1,000: * leads, ! is out of sync, -3 lacks three records.",
            Matrix,
            ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "STATE"),
            _partitions,
            "There is no topic.",
        ),
        View(
            "faults",
            "Fault rules, and what they did.",
            ListFaults,
            ("ID", "RULE", "MATCHED", "FIRED", "HELD"),
            _faults,
            "There are no fault rules.",
        ),
        View(
            "wheel",
            "The buckets of the timing wheels that are not empty.",
            State,
            ("BROKER", "PURGATORY", "TICK", "DUE IN", "ENTRIES", ""),
            _wheel,
            "The wheels are empty.",
            {"operations": 0, "partitions": ""},
        ),
    )
}
"""All views by their names; the first one is shown first."""
