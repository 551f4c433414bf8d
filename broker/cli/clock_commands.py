"""``purgatorio clock``: move, stop and show the time of a running cluster's brokers."""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatorio.broker.cli.command import Answer, Show, print_further, print_table
from purgatorio.broker.cli.printable import printable


def _show_advance(moved: Answer, args: argparse.Namespace) -> None:
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
    print_further(moved["ended_count"] - len(moved["ended"]))


def _show_time(clock: Any, args: argparse.Namespace) -> None:
    from datetime import UTC, datetime

    try:
        shown = datetime.fromtimestamp(clock["wall_ms"] / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):  # beyond the year 9999
        shown = f"{clock['wall_ms']} ms since 1970"
    print(shown + (", and stands still" if clock["frozen"] else ""))


SHOWN: Final[dict[str, Show]] = {
    "show": _show_time,
    "advance": _show_advance,
    "freeze": _show_time,
    "unfreeze": _show_time,
}
