"""``purgatorio parked``: list the operations that wait in a running cluster's purgatories, and expire one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

SHOWN_IF_ASKED: Final = ("Heartbeat", "TransactionTimeout")
"""Purgatories that are listed only if they are asked for: each idle member and open transaction has an operation."""
FOLLOWER_FETCH: Final = "follower fetch"


def add_parked_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    parked = add_group(commands, "parked", "list what waits in a running cluster's purgatories, and expire it")
    listing = add_command(parked, "list", _list, "list parked operations, without heartbeats and fetches of followers")
    listing.add_argument("--api", metavar="NAME", help="only of this purgatory: Produce, Fetch, Heartbeat …")
    listing.add_argument("--client", metavar="ID", help="only of this client id")
    expire = add_command(parked, "expire", _expire, "let the deadline of a parked operation come now")
    expire.add_argument("broker", metavar="BROKER", type=int, help="its broker")
    expire.add_argument("purgatory", metavar="PURGATORY", help="its purgatory, as listed")
    expire.add_argument("id", metavar="ID", type=int, help="its id, as listed")


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    state = admin.get("state?operations=1000")
    known = {purgatory["name"]: None for broker in state["brokers"] for purgatory in broker["purgatories"]}
    if args.api is not None and args.api not in known:
        return _unknown(args.api, known)
    rows = [
        (
            broker["id"],
            purgatory,
            row["id"],
            printable(row["client"]) or "-",
            row["waited_ms"],
            row["remaining_ms"],
            printable(row["missing"] or ", ".join(row["keys"])),
        )
        for broker, purgatory, row in _wanted(state, args.api, args.client)
    ]
    if rows:
        print_table(("BROKER", "PURGATORY", "ID", "CLIENT", "WAITED-MS", "LEFT-MS", "MISSING"), rows)
    else:
        print("nothing is parked")
    return 0


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


def _unknown(api: str, known: dict[str, None]) -> int:
    import difflib
    import sys

    near = difflib.get_close_matches(api.capitalize(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f", only {', '.join(known)}"
    print(f"purgatorio: there is no purgatory {printable(api)!r}{hint}", file=sys.stderr)
    return 2


def _expire(admin: AdminClient, args: argparse.Namespace) -> int:
    from urllib.parse import quote

    place = f"brokers/{args.broker}/purgatories/{quote(args.purgatory, safe='')}/operations/{args.id}"
    admin.post(f"{place}/expire")
    print(f"{printable(args.purgatory)} operation {args.id} of broker {args.broker} has expired")
    return 0
