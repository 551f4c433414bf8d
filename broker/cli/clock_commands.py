"""``purgatorio clock``: move, stop and show the time of a running cluster's brokers."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient


def add_clock_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    clock = add_group(commands, "clock", "move, stop and show the time of a running cluster's brokers")
    add_command(clock, "show", _show, "show the brokers' time")
    advance = add_command(clock, "advance", _advance, "move the brokers' time forward, and list what ended by that")
    advance.add_argument("seconds", metavar="SECONDS", type=_seconds, help="how far")
    advance.add_argument(
        "--sessions", action="store_true", help="also for members of groups, who cannot send heartbeats at that pace"
    )
    add_command(clock, "freeze", _freeze, "stop the brokers' time")
    add_command(clock, "unfreeze", _unfreeze, "let the brokers' time go on")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return seconds


def _show(admin: AdminClient, args: argparse.Namespace) -> int:
    return _print_time(admin.get("clock"))


def _freeze(admin: AdminClient, args: argparse.Namespace) -> int:
    return _print_time(admin.post("clock/freeze"))


def _unfreeze(admin: AdminClient, args: argparse.Namespace) -> int:
    return _print_time(admin.post("clock/unfreeze"))


def _advance(admin: AdminClient, args: argparse.Namespace) -> int:
    moved = admin.post("clock/advance", {"seconds": args.seconds, "sessions": args.sessions})
    print(f"the brokers' clock moved {args.seconds:g} s")
    if moved["ended"]:
        rows = [
            (
                each["broker"],
                each["purgatory"],
                printable(each["client"]),
                each["waited_ms"],
                printable(each["missing"]),
            )
            for each in moved["ended"]
        ]
        print_table(("BROKER", "PURGATORY", "CLIENT", "WAITED-MS", "MISSING"), rows)
    further = moved["ended_count"] - len(moved["ended"])
    if further:
        print(f"and {further} more")
    return 0


def _print_time(clock: Any) -> int:
    from datetime import UTC, datetime

    try:
        shown = datetime.fromtimestamp(clock["wall_ms"] / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):  # beyond the year 9999
        shown = f"{clock['wall_ms']} ms since 1970"
    print(shown + (", and stands still" if clock["frozen"] else ""))
    return 0
