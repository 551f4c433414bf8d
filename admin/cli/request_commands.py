"""``purgatorio fault`` and ``parked``: what happens to the requests of a running cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    CommandRefused,
    Show,
    add_command,
    says,
    table,
)
from purgatorio.admin.cli.operation_commands import send
from purgatorio.admin.operations.faults import AddFault
from purgatorio.admin.operations.purgatories import State
from purgatorio.broker.causes.kinds import FOLLOWER_FETCH, named, why_unknown

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient


# --- fault rules ---

_FAULTS: Final[Columns] = {
    "ID": "id",
    "RULE": "text",
    "MATCHED": "matched",
    "FIRED": "fired",
    "HELD": lambda row: row["held"] or "",
}


def _add_to_fault(commands: Any) -> None:
    """Add the command that takes a rule as words."""
    adding = add_command(commands, "add", _add_fault, says("fault {id}: {text}"), AddFault.does())
    adding.add_argument(
        "words",
        metavar="NAME=VALUE",
        nargs="+",
        help="such as: api=Fetch topic=orders error=NOT_LEADER_OR_FOLLOWER count=3; api=Produce hold=true; "
        "api=Fetch replica=3 delay_ms=200; errors=REQUEST_TIMED_OUT,NONE; toxic=latency latency_ms=100 client=billing; "
        "tier=get topic=orders hold=true",
    )


def _add_fault(admin: AdminClient, args: argparse.Namespace) -> Answer:
    types = _types()
    return admin.post("faults", dict(_parsed(word, types) for word in args.words))


def _types() -> dict[str, str]:
    """Return the types of a rule's values by their names, as they are declared."""
    from dataclasses import fields

    from purgatorio.broker.layers.faults.rule import Rule
    from purgatorio.broker.layers.faults.tier_rule import TierRule
    from purgatorio.broker.layers.faults.toxic import Toxic

    return {each.name: str(each.type) for kind in (TierRule, Toxic, Rule) for each in fields(kind)}


def _parsed(word: str, types: dict[str, str]) -> tuple[str, Any]:
    """Return the name and the value of ``name=value``; the cluster refuses what makes no sense."""
    name, equals, value = word.partition("=")
    name = name.replace("-", "_")
    kind = types.get(name, "").removesuffix(" | None")
    if kind == "bool":
        return name, {"": not equals or "", "true": True, "false": False}.get(value, value)
    if kind in ("int", "float"):
        try:
            return name, float(value) if kind == "float" else int(value)
        except ValueError:
            return name, value
    return name, value.split(",") if kind.startswith("tuple") else value


# --- parked operations ---

_PARKED: Final[Columns] = {
    "BROKER": "broker",
    "PURGATORY": "purgatory",
    "ID": "id",
    "CLIENT": lambda row: row["client"] or "-",
    "WAITED-MS": "waited_ms",
    "LEFT-MS": "remaining_ms",
    "MISSING": lambda row: row["missing"] or ", ".join(row["keys"]),
}


def _add_to_parked(commands: Any) -> None:
    """Add the list, which is a part of the state."""
    words = "list parked operations, without heartbeats and fetches of followers"
    listing = add_command(commands, "list", _list_parked, table("parked", _PARKED, "nothing is parked"), words)
    listing.add_argument("--api", metavar="NAME", help="only of this purgatory: Produce, Fetch, Heartbeat …")
    listing.add_argument("--client", metavar="ID", help="only of this client id")


def _list_parked(admin: AdminClient, args: argparse.Namespace) -> Answer:
    if args.api is not None and (why := why_unknown(args.api)):
        raise CommandRefused(f"purgatorio: {why}", 2)
    state = send(State, admin, {"operations": 1000})
    wanted = _wanted(state, args.api, args.client)
    return {"parked": [{"broker": broker["id"], "purgatory": purgatory, **row} for broker, purgatory, row in wanted]}


def _wanted(state: Any, api: str | None, client: str | None) -> Iterator[tuple[Any, str, Any]]:
    """Yield the operations that are listed, each with its broker and its purgatory's name."""
    for broker in state["brokers"]:
        for purgatory in broker["purgatories"]:
            name = purgatory["name"]
            if name != api and (api is not None or named(name).is_idle):
                continue
            for row in purgatory["operations"]:
                if client in (None, row["client"]) and (api or client or row["kind"] != FOLLOWER_FETCH.noun):
                    yield broker, name, row


ADDED: Final[dict[str, Add]] = {"fault": _add_to_fault, "parked": _add_to_parked}
SHOWN: Final[dict[str, Show]] = {"fault list": table("faults", _FAULTS, "there are no fault rules")}
