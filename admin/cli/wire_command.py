"""Commands that speak Kafka's protocol, with any cluster: how they are declared. `wire` has their work."""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatorio.admin.cli.command import (
    ADMIN_VARIABLE,
    Show,
    Wire,
    add_parser,
    add_wire_options,
    run_command,
)

_EPILOG: Final = f"""\
The cluster is any that speaks Kafka's protocol, at --bootstrap or at bootstrap.servers in the file of --command-config.
Without them it is the one whose admin HTTP is at --admin or at the address in {ADMIN_VARIABLE},
by default on this machine; if none answers there, localhost:9092. Exit codes: 0 done, 1 refused or failed,
2 wrong usage, 130 ended by Ctrl-C.
"""


def add_wire_command(commands: Any, name: str, wire: Wire, show: Show | None, summary: str) -> Any:
    """Add a command that always speaks Kafka's protocol; returns its parser.

    Args:
        show: prints the answer; None: the command has printed what there is, and its answer is the exit code.
    """
    parser = add_parser(commands, name, summary, _EPILOG)
    parser.set_defaults(run=lambda args: run_command(None, show or _show_code, args, wire))
    add_wire_options(parser)
    parser.add_argument(
        "--admin", metavar="URL", help="the URL of the admin HTTP of the cluster whose brokers are asked"
    )
    if show is not None:
        parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    else:
        parser.set_defaults(json=False)
    return parser


def by_wire(name: str) -> Wire:
    """Return what does a command by Kafka's protocol, such as ``topics.describe`` in `purgatorio.admin.cli.wire`."""

    def run(args: argparse.Namespace) -> Any:
        import importlib

        from purgatorio.admin.cli.wire.asking import ask

        module, _, function = name.partition(".")
        return ask(getattr(importlib.import_module(f"purgatorio.admin.cli.wire.{module}"), function), args)

    return run


def _show_code(code: Any, args: argparse.Namespace) -> int:
    return int(code)
