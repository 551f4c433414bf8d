"""``purgatorio parked``: list the operations that wait in a running cluster's purgatories, and expire one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Refused, add_command, print_table
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.purgatories import State

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

SHOWN_IF_ASKED: Final = ("Heartbeat", "TransactionTimeout")
"""Purgatories that are listed only if they are asked for: each idle member and open transaction has an operation."""
FOLLOWER_FETCH: Final = "follower fetch"


def add(commands: Any) -> None:
    """Add the list, which is a part of the state."""
    words = "list parked operations, without heartbeats and fetches of followers"
    listing = add_command(commands, "list", _list, _show, words)
    listing.add_argument("--api", metavar="NAME", help="only of this purgatory: Produce, Fetch, Heartbeat …")
    listing.add_argument("--client", metavar="ID", help="only of this client id")


def _list(admin: AdminClient, args: argparse.Namespace) -> Answer:
    state = send(State, admin, {"operations": 1000})
    known = {purgatory["name"]: None for broker in state["brokers"] for purgatory in broker["purgatories"]}
    if args.api is not None and args.api not in known:
        raise _unknown(args.api, known)
    wanted = _wanted(state, args.api, args.client)
    return {"parked": [{"broker": broker["id"], "purgatory": purgatory, **row} for broker, purgatory, row in wanted]}


def _show(answer: Answer, args: argparse.Namespace) -> None:
    rows = [
        (
            row["broker"],
            row["purgatory"],
            row["id"],
            printable(row["client"]) or "-",
            row["waited_ms"],
            row["remaining_ms"],
            printable(row["missing"] or ", ".join(row["keys"])),
        )
        for row in answer["parked"]
    ]
    if rows:
        print_table(("BROKER", "PURGATORY", "ID", "CLIENT", "WAITED-MS", "LEFT-MS", "MISSING"), rows)
    else:
        print("nothing is parked")


def _wanted(state: Any, api: str | None, client: str | None) -> Iterator[tuple[Any, str, Any]]:
    """Yield the operations that are listed, each with its broker and its purgatory's name."""
    for broker in state["brokers"]:
        for purgatory in broker["purgatories"]:
            name = purgatory["name"]
            if name != api and (api is not None or name in SHOWN_IF_ASKED):
                continue
            for row in purgatory["operations"]:
                if client in (None, row["client"]) and (api or client or row["kind"] != FOLLOWER_FETCH):
                    yield broker, name, row


def _unknown(api: str, known: dict[str, None]) -> Refused:
    import difflib

    near = difflib.get_close_matches(api.capitalize(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f", only {', '.join(known)}"
    return Refused(f"purgatorio: there is no purgatory {printable(api)!r}{hint}", 2)
