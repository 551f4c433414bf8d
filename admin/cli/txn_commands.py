"""``purgatorio txn``: list and describe transactions, abort and expire them, and move their coordinators."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    add_command,
    near,
    partition_of,
    print_further,
    print_table,
    says,
    seconds,
    seconds_of,
)
from purgatorio.admin.cli.operation_commands import send
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.operations import transactions
from purgatorio.admin.operations.transactions import STATES

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient


def _add(commands: Any) -> None:
    """Add the commands that are about one transactional id, or hanging transactions; they name ids that are near."""
    listing = add_command(commands, "list", _list, _show_list, transactions.ListTransactions.does())
    listing.add_argument("--state", metavar="STATE", type=_state, help=f"only those in this state: {', '.join(STATES)}")
    listing.add_argument("--producer-id", metavar="N", type=int, help="only this producer's")
    listing.add_argument("--longer-than", metavar="SECONDS", type=seconds, help="only those that are open for so long")
    listing.add_argument(
        "--hanging",
        action="store_true",
        help="list the transactions that are open in a log and that no coordinator knows",
    )
    describe = add_command(commands, "describe", _describe, _show, transactions.DescribeTransaction.does())
    describe.add_argument("id", metavar="ID", help="the transactional id")
    abort = add_command(commands, "abort", _abort, _show_aborted, transactions.AbortTransaction.does())
    abort.add_argument("id", metavar="ID", nargs="?", help="the transactional id")
    abort.add_argument(
        "--hanging",
        metavar="TOPIC-PARTITION",
        type=_partition,
        help="instead, end a transaction of this partition that no coordinator knows; needs --producer-id",
    )
    abort.add_argument("--producer-id", metavar="N", type=int, help="the producer of the hanging transaction")
    abort.set_defaults(usage_error=abort.error)
    expire = add_command(
        commands,
        "expire",
        _expire,
        says("the time of the transaction of {id} is over: its coordinator aborts it"),
        transactions.ExpireTransaction.does(),
    )
    expire.add_argument("id", metavar="ID", help="the transactional id")


def _state(text: str) -> str:
    for state in STATES:
        if state.lower() == text.lower():
            return state
    hint = near(text.title(), STATES) or f"; the states are {', '.join(STATES)}"
    raise argparse.ArgumentTypeError(f"{text!r} is not a state{hint}")


def _partition(text: str) -> tuple[str, int]:
    topic, dash, number = text.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a partition such as orders-0")
    return topic, int(number)


def _list(admin: AdminClient, args: argparse.Namespace) -> Answer:
    longer_than_ms = None if args.longer_than is None else round(args.longer_than * 1000)
    filters = {"state": args.state, "producer_id": args.producer_id, "open_longer_than_ms": longer_than_ms}
    kind = transactions.ListHangingTransactions if args.hanging else transactions.ListTransactions
    return send(kind, admin, {name: value for name, value in filters.items() if value is not None})


_LISTED: Final[Columns] = {
    "ID": "id",
    "STATE": "state",
    "PRODUCER": "producer_id",
    "EPOCH": "producer_epoch",
    "OPEN": lambda row: seconds_of(row["open_ms"]),
    "TIMES OUT IN": lambda row: seconds_of(row["timeout_left_ms"]),
    "PARTITIONS": "partition_count",
    "COORDINATOR": "coordinator",
    "WAITS FOR": "waits_for",
}
_HANGING: Final[Columns] = {
    "PARTITION": partition_of,
    "PRODUCER": "producer_id",
    "EPOCH": "producer_epoch",
    "FIRST OFFSET": "start_offset",
    "OPEN": lambda row: seconds_of(row["open_ms"]),
    "ID": lambda row: row["id"] or "-",
}


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    columns, nothing = (
        (_HANGING, "no transaction hangs") if args.hanging else (_LISTED, "no transactional id is listed")
    )
    print_table(columns, listed["transactions"], nothing)
    print_further(listed["transaction_count"] - len(listed["transactions"]))
    if listed["loading_partition_count"]:
        print("some transactional ids are being loaded by their coordinators, and are not listed yet")


def _describe(admin: AdminClient, args: argparse.Namespace) -> Answer:
    return _known(admin, args.id, lambda: send(transactions.DescribeTransaction, admin, {"id": args.id}))


def _show(found: Answer, args: argparse.Namespace) -> None:
    print(f"transactional id {printable(found['id'])}: {found['state']}, coordinator broker {found['coordinator']}")
    print(
        f"producer {found['producer_id']}, epoch {found['producer_epoch']}, timeout {seconds_of(found['timeout_ms'])}"
    )
    if found["open_ms"] is not None:
        left = found["timeout_left_ms"]
        print(f"open {seconds_of(found['open_ms'])}" + ("" if left is None else f", times out in {seconds_of(left)}"))
    if found["waits_for"]:
        print(printable(found["waits_for"]))
    print()
    ended = found["timeout_left_ms"] is None and found["open_ms"] is not None
    columns: Columns = {
        "PARTITION": partition_of,
        "LEADER": lambda row: "-" if row["leader"] < 0 else row["leader"],
        "MARKER": lambda row: ("missing" if row["marker_missing"] else "written") if ended else "",
    }
    print_table(columns, found["partitions"], "no partitions")
    if found["partitions"]:
        print_further(found["partition_count"] - len(found["partitions"]))


def _abort(admin: AdminClient, args: argparse.Namespace) -> Answer:
    if args.hanging is not None:
        if args.id is not None or args.producer_id is None:
            args.usage_error("--hanging needs --producer-id, and no transactional id")
        topic, partition = args.hanging
        hanging = {"topic": topic, "partition": partition, "producer_id": args.producer_id}
        return send(transactions.AbortHangingTransaction, admin, hanging)
    if args.id is None or args.producer_id is not None:
        args.usage_error("give a transactional id, or --hanging and --producer-id")
    return _known(admin, args.id, lambda: send(transactions.AbortTransaction, admin, {"id": args.id}))


def _expire(admin: AdminClient, args: argparse.Namespace) -> Answer:
    return _known(admin, args.id, lambda: send(transactions.ExpireTransaction, admin, {"id": args.id}))


def _show_aborted(answer: Answer, args: argparse.Namespace) -> None:
    if args.hanging is None:
        print(f"the transaction of {printable(args.id)} is aborted, and its producer is fenced")
    else:
        print(f"the transaction of producer {args.producer_id} in {'-'.join(map(str, args.hanging))} is aborted")


def _known(admin: AdminClient, transactional_id: str, asked: Callable[[], Answer]) -> Answer:
    """Ask about a transactional id; name one that is similar if there is none with this name."""
    from purgatorio.admin.cli.admin_client import AdminError

    try:
        return asked()
    except AdminError as error:
        is_unknown = str(error).startswith("there is no transactional id")
        ids = send(transactions.ListTransactions, admin, {})["transactions"] if is_unknown else []
        hint = near(transactional_id, (row["id"] for row in ids))
        if not hint:
            raise
        raise AdminError(f"{error}{hint}") from None


ADDED: Final[dict[str, Add]] = {"txn": _add}
