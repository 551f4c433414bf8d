"""``purgatorio fault``: have a running cluster fail, delay, hold or lose requests, by rule."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Show, add_command, print_table, says
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.faults import AddFault

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient


def add(commands: Any) -> None:
    """Add the command that takes a rule as words."""
    adding = add_command(commands, "add", _add, says("fault {id}: {text}"), AddFault.does())
    adding.add_argument(
        "words",
        metavar="NAME=VALUE",
        nargs="+",
        help="such as: api=Fetch topic=orders error=NOT_LEADER_OR_FOLLOWER count=3; api=Produce hold=true; "
        "api=Fetch replica=3 delay_ms=200; errors=REQUEST_TIMED_OUT,NONE; toxic=latency latency_ms=100 client=billing",
    )


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    rows = [
        (row["id"], printable(row["text"]), row["matched"], row["fired"], row["held"] or "") for row in listed["faults"]
    ]
    if rows:
        print_table(("ID", "RULE", "MATCHED", "FIRED", "HELD"), rows)
    else:
        print("there are no fault rules")


def _add(admin: AdminClient, args: argparse.Namespace) -> Answer:
    types = _types()
    return admin.post("faults", dict(_parsed(word, types) for word in args.words))


def _types() -> dict[str, str]:
    """Return the types of a rule's values by their names, as they are declared."""
    from dataclasses import fields

    from purgatorio.broker.layers.faults.rule import Rule
    from purgatorio.broker.layers.faults.toxic import Toxic

    return {each.name: str(each.type) for kind in (Toxic, Rule) for each in fields(kind)}


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


SHOWN: Final[dict[str, Show]] = {"list": _show_list}
