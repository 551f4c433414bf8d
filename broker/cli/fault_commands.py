"""``purgatorio fault``: have a running cluster fail, delay, hold or lose requests, by rule."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Command, add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

_NUMBERS: Final = (
    *("version", "partition", "broker", "replica", "nth", "count", "hide"),
    *("delay_ms", "answer_delay_ms", "throttle_ms"),
    *("latency_ms", "jitter_ms", "rate_kb", "timeout_ms", "average_size_bytes", "size_variation_bytes", "limit_bytes"),
)
_SHARES: Final = ("probability", "toxicity")
_FLAGS: Final = ("hold", "corrupt", "observe")


def add_fault_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    faults = add_group(commands, "fault", "have a running cluster fail, delay, hold or lose requests, by rule")
    add_command(faults, "list", _list, "list the fault rules with their counts")
    add = add_command(faults, "add", _add, "add a fault rule; the newest one that matches a request acts")
    add.add_argument(
        "words",
        metavar="NAME=VALUE",
        nargs="+",
        help="such as: api=Fetch topic=orders error=NOT_LEADER_OR_FOLLOWER count=3; api=Produce hold=true; "
        "api=Fetch replica=3 delay_ms=200; errors=REQUEST_TIMED_OUT,NONE; toxic=latency latency_ms=100 client=billing",
    )
    _add_rule_command(faults, "remove", _remove, "remove a fault rule; requests that it holds go on")
    _add_rule_command(faults, "release", _release, "let the requests go on that a fault rule holds, and remove it")
    add_command(faults, "clear", _clear, "remove all fault rules")


def _add_rule_command(commands: Any, name: str, run: Command, summary: str) -> None:
    parser = add_command(commands, name, run, summary)
    parser.add_argument("fault", metavar="ID", type=int, help="the rule's id, as listed")


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    rows = [
        (row["id"], printable(row["text"]), row["matched"], row["fired"], row["held"] or "")
        for row in admin.get("faults")["faults"]
    ]
    if rows:
        print_table(("ID", "RULE", "MATCHED", "FIRED", "HELD"), rows)
    else:
        print("there are no fault rules")
    return 0


def _add(admin: AdminClient, args: argparse.Namespace) -> int:
    added = admin.post("faults", dict(_parsed(word) for word in args.words))
    print(f"fault {added['id']}: {printable(added['text'])}")
    return 0


def _remove(admin: AdminClient, args: argparse.Namespace) -> int:
    removed = admin.delete(f"faults/{args.fault}")
    print(f"fault {args.fault} is removed; it fired {removed['fired']} times")
    return 0


def _release(admin: AdminClient, args: argparse.Namespace) -> int:
    released = admin.post(f"faults/{args.fault}/release")
    print(f"fault {args.fault} is removed; {released['released']} requests that it held go on")
    return 0


def _clear(admin: AdminClient, args: argparse.Namespace) -> int:
    print(f"{admin.delete('faults')['removed']} fault rules are removed")
    return 0


def _parsed(word: str) -> tuple[str, Any]:
    """Return the name and the value of ``name=value``; the cluster refuses what makes no sense."""
    name, equals, value = word.partition("=")
    name = name.replace("-", "_")
    if name in _FLAGS:
        return name, {"": not equals or "", "true": True, "false": False}.get(value, value)
    if name in _NUMBERS or name in _SHARES:
        try:
            return name, float(value) if name in _SHARES else int(value)
        except ValueError:
            return name, value
    return name, value.split(",") if name == "errors" else value
