"""``reset-offsets`` of ``purgatorio groups`` and ``purgatorio share-groups``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from purgatorio.admin.cli.command import Answer, CommandRefused, Wire, add_command, partition_of, print_table
from purgatorio.admin.cli.operation_commands import send
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.operations.groups import DescribeGroup, ResetOffsets

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient


def add_reset(operation: type[ResetOffsets], commands: Any, wire: Wire | None = None) -> None:
    """Add a command whose target is one word here, and one of three fields in JSON."""
    reset = add_command(commands, "reset-offsets", partial(_reset, operation), _show_reset, operation.does(), wire=wire)
    reset.add_argument("id", metavar="GROUP", help="the group's id")
    reset.add_argument("--topic", metavar="TOPIC", required=True, help="the topic whose offsets are reset")
    reset.add_argument("--partition", metavar="N", type=int, help="only this partition of the topic")
    reset.add_argument(
        "--to",
        metavar="WHERE",
        required=True,
        type=_target,
        help="earliest, latest, an offset, or a time such as 2026-11-21T20:15 or 2026-11-21T20:15:00Z",
    )
    if wire is not None:
        reset.add_argument("--create", action="store_true", help="make the group, even if its name is near another's")


def _target(text: str) -> dict[str, str | int]:
    """Return where offsets are reset to, as the admin HTTP takes it; a time without a zone is local."""
    if text in ("earliest", "latest"):
        return {"to": text}
    if text.isascii() and text.isdecimal():
        return {"offset": int(text)}
    timestamp_ms = time_of(text)
    if timestamp_ms is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not earliest, latest, an offset or a time")
    return {"timestamp_ms": timestamp_ms}


def time_of(text: str) -> int | None:
    """Return a time that a user typed, in milliseconds since 1970; one without a zone is local. None: it is none."""
    from datetime import datetime

    try:
        return max(0, round(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None


def _reset(operation: type[ResetOffsets], admin: AdminClient, args: argparse.Namespace) -> Answer:
    given = {"id": args.id, "topic": args.topic, **args.to}
    if args.partition is not None:
        given["partition"] = args.partition
    return {"new": operation is ResetOffsets and _is_new(admin, args), **send(operation, admin, given)}


def _is_new(admin: AdminClient, args: argparse.Namespace) -> bool:
    """Return whether the group does not exist; refuse to make one whose name is near another's."""
    from purgatorio.admin.cli.admin_client import AdminError

    try:
        send(DescribeGroup, admin, {"id": args.id, "members": 0, "offsets": 0})
    except AdminError as error:
        if not str(error).startswith("there is no group "):
            return False  # the reset itself says what is wrong
        if "did you mean" in str(error) and not args.create:
            raise CommandRefused(f"purgatorio: {error} --create makes it", 1) from None
        return True
    return False


def _show_reset(answer: Answer, args: argparse.Namespace) -> None:
    if answer["new"]:
        print(f"group {printable(args.id)} is new")
    print_table({"PARTITION": partition_of, "BEFORE": "before", "NOW": "after"}, answer["offsets"])
