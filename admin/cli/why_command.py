"""``purgatorio why``: says why a group, a topic or a client of a running cluster gets nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from purgatorio.admin.cli.command import Answer, add_command
from purgatorio.admin.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient


def add_why(commands: Any) -> None:
    """Add the command."""
    summary = "say why a group, a topic or a client of a running cluster gets nothing"
    command = add_command(commands, "why", _ask, _show, summary)
    command.add_argument(
        "name",
        metavar="GROUP|TOPIC",
        nargs="?",
        help="only about this group, topic or client id; all if it is not given",
    )


def _ask(admin: AdminClient, args: argparse.Namespace) -> Answer:
    from purgatorio.admin.cli.operation_commands import send
    from purgatorio.admin.operations.why import Why

    return send(Why, admin, {} if args.name is None else {"name": args.name})


def _show(answer: Answer, args: argparse.Namespace) -> None:
    for line in answer["text"].splitlines():
        print(printable(line))
