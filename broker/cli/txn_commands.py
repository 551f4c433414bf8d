"""``purgatorio txn``: list and describe transactions, abort and expire them, and move their coordinators."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""The states by which transactions are listed; a producer id that waits for its first transaction is Empty."""


def add_txn_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    txn = add_group(commands, "txn", "list, describe, abort and expire transactions, move their coordinators")
    listing = _add(txn, "list", _list, "list the transactional ids with their transactions, the oldest open one first")
    listing.add_argument("--state", metavar="STATE", type=_state, help=f"only those in this state: {', '.join(STATES)}")
    listing.add_argument("--producer-id", metavar="N", type=int, help="only this producer's")
    listing.add_argument("--longer-than", metavar="SECONDS", type=_seconds, help="only those that are open for so long")
    listing.add_argument(
        "--hanging",
        action="store_true",
        help="list the transactions that are open in a log and that no coordinator knows",
    )
    describe = _add(txn, "describe", _describe, "show the transaction of a transactional id with its partitions")
    describe.add_argument("id", metavar="ID", help="the transactional id")
    abort = _add(txn, "abort", _abort, "abort the open transaction of a transactional id, and fence its producer")
    abort.add_argument("id", metavar="ID", nargs="?", help="the transactional id")
    abort.add_argument(
        "--hanging",
        metavar="TOPIC-PARTITION",
        type=_partition,
        help="instead, end a transaction of this partition that no coordinator knows; needs --producer-id",
    )
    abort.add_argument("--producer-id", metavar="N", type=int, help="the producer of the hanging transaction")
    abort.set_defaults(usage_error=abort.error)
    expire = _add(txn, "expire", _expire, "end the time of an open transaction now: its coordinator aborts it")
    expire.add_argument("id", metavar="ID", help="the transactional id")
    move = _add(txn, "move-coordinator", _move, "move the coordinator of a transactional id, with all of its partition")
    move.add_argument("id", metavar="ID", help="the transactional id")
    move.add_argument("--to", metavar="BROKER", type=int, help="the broker (any other in-sync replica)")


def _add(commands: Any, name: str, run: Any, summary: str) -> Any:
    parser = add_command(commands, name, run, summary)
    parser.add_argument("--json", action="store_true", help="print the cluster's answer as JSON")
    return parser


def _state(text: str) -> str:
    for state in STATES:
        if state.lower() == text.lower():
            return state
    import difflib

    near = difflib.get_close_matches(text.title(), STATES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the states are {', '.join(STATES)}"
    raise argparse.ArgumentTypeError(f"{text!r} is not a state; {hint}")


def _seconds(text: str) -> int:
    """Return the time in milliseconds."""
    try:
        ms = round(float(text) * 1000)
    except (ValueError, OverflowError):
        ms = -1
    if ms < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return ms


def _partition(text: str) -> tuple[str, int]:
    topic, dash, number = text.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a partition such as orders-0")
    return topic, int(number)


def _path(transactional_id: str) -> str:
    from urllib.parse import quote

    return f"transactions/{quote(transactional_id, safe='')}"


# --- look ---


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    from urllib.parse import urlencode

    filters = {
        "state": args.state,
        "producer_id": args.producer_id,
        "open_longer_than_ms": args.longer_than,
    }
    query = urlencode({name: value for name, value in filters.items() if value is not None})
    path = "hanging-transactions" if args.hanging else "transactions"
    listed = admin.get(f"{path}?{query}" if query else path)
    if args.json:
        return _print_json(listed)
    (_print_hanging if args.hanging else _print_transactions)(listed["transactions"])
    further = listed["transaction_count"] - len(listed["transactions"])
    if further > 0:
        print(f"and {further} more")
    if listed["loading_partition_count"]:
        print("some transactional ids are being loaded by their coordinators, and are not listed yet")
    return 0


def _print_transactions(transactions: Sequence[Mapping[str, Any]]) -> None:
    if not transactions:
        print("no transactional id is listed")
        return
    rows = [
        (
            printable(row["id"]),
            row["state"],
            row["producer_id"],
            row["producer_epoch"],
            _time(row["open_ms"]),
            _time(row["timeout_left_ms"]),
            row["partition_count"],
            row["coordinator"],
            printable(row["waits_for"]),
        )
        for row in transactions
    ]
    head = ("ID", "STATE", "PRODUCER", "EPOCH", "OPEN", "TIMES OUT IN", "PARTITIONS", "COORDINATOR", "WAITS FOR")
    print_table(head, rows)


def _print_hanging(transactions: Sequence[Mapping[str, Any]]) -> None:
    if not transactions:
        print("no transaction hangs")
        return
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            row["producer_id"],
            row["producer_epoch"],
            row["start_offset"],
            _time(row["open_ms"]),
            printable(row["id"]) or "-",
        )
        for row in transactions
    ]
    print_table(("PARTITION", "PRODUCER", "EPOCH", "FIRST OFFSET", "OPEN", "ID"), rows)


def _describe(admin: AdminClient, args: argparse.Namespace) -> int:
    found = _known(admin, args.id, lambda: admin.get(_path(args.id)))
    if args.json:
        return _print_json(found)
    print(f"transactional id {printable(found['id'])}: {found['state']}, coordinator broker {found['coordinator']}")
    print(f"producer {found['producer_id']}, epoch {found['producer_epoch']}, timeout {_time(found['timeout_ms'])}")
    if found["open_ms"] is not None:
        left = found["timeout_left_ms"]
        print(f"open {_time(found['open_ms'])}" + ("" if left is None else f", times out in {_time(left)}"))
    if found["waits_for"]:
        print(printable(found["waits_for"]))
    print()
    if not found["partitions"]:
        print("no partitions")
        return 0
    ended = found["timeout_left_ms"] is None and found["open_ms"] is not None
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            "-" if row["leader"] < 0 else row["leader"],
            ("missing" if row["marker_missing"] else "written") if ended else "",
        )
        for row in found["partitions"]
    ]
    print_table(("PARTITION", "LEADER", "MARKER"), rows)
    further = found["partition_count"] - len(rows)
    if further > 0:
        print(f"and {further} more")
    return 0


def _time(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.1f} s"


def _print_json(answer: Mapping[str, Any]) -> int:
    import json

    print(json.dumps(answer, indent=2))
    return 0


# --- change ---


def _abort(admin: AdminClient, args: argparse.Namespace) -> int:
    if args.hanging is not None:
        return _abort_hanging(admin, args)
    if args.id is None or args.producer_id is not None:
        args.usage_error("give a transactional id, or --hanging and --producer-id")
    answer = _known(admin, args.id, lambda: admin.post(f"{_path(args.id)}/abort"))
    if args.json:
        return _print_json(answer)
    print(f"the transaction of {printable(args.id)} is aborted, and its producer is fenced")
    return 0


def _expire(admin: AdminClient, args: argparse.Namespace) -> int:
    answer = _known(admin, args.id, lambda: admin.post(f"{_path(args.id)}/expire"))
    if args.json:
        return _print_json(answer)
    print(f"the time of the transaction of {printable(args.id)} is over: its coordinator aborts it")
    return 0


def _move(admin: AdminClient, args: argparse.Namespace) -> int:
    answer = admin.post(f"{_path(args.id)}/move-coordinator", {} if args.to is None else {"to": args.to})
    if args.json:
        return _print_json(answer)
    print(f"broker {answer['coordinator']} is the coordinator of {printable(args.id)}")
    return 0


def _abort_hanging(admin: AdminClient, args: argparse.Namespace) -> int:
    if args.id is not None or args.producer_id is None:
        args.usage_error("--hanging needs --producer-id, and no transactional id")
    topic, partition = args.hanging
    body = {"topic": topic, "partition": partition, "producer_id": args.producer_id}
    answer = admin.post("hanging-transactions/abort", body)
    if args.json:
        return _print_json(answer)
    print(f"the transaction of producer {args.producer_id} in {topic}-{partition} is aborted")
    return 0


def _known(admin: AdminClient, transactional_id: str, ask: Any) -> dict[str, Any]:
    """Ask about a transactional id; name one that is similar if there is none with this name."""
    from purgatorio.broker.cli.admin_client import AdminError

    try:
        answer: dict[str, Any] = ask()
    except AdminError as error:
        near = _near(admin, transactional_id) if str(error).startswith("there is no transactional id") else ""
        if not near:
            raise
        raise AdminError(f"{error}; did you mean {printable(near)}?") from None
    return answer


def _near(admin: AdminClient, transactional_id: str) -> str:
    import difflib

    ids = [row["id"] for row in admin.get("transactions")["transactions"]]
    return next(iter(difflib.get_close_matches(transactional_id, ids, n=1)), "")
