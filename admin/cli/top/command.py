"""The command ``purgatorio top``."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from typing import Any, Final

from purgatorio.admin.cli.command import ADMIN_VARIABLE, DEFAULT_ADMIN_URL, TOKEN_VARIABLE, CommandRefused, add_parser

SUMMARY: Final = "watch in a terminal what waits in a running cluster, and end it"
_EPILOG: Final = f"""\
The cluster is the one at --admin, at {ADMIN_VARIABLE}, or that of a running test (--attach).
Keys: : view, / filter, enter why, h hold, r release, x expire, k kill, p freeze, - last view, ? help, q quit.
"""


def add_top(commands: Any) -> None:
    """Add the command to the subcommands of a parser."""
    parser = add_parser(commands, "top", SUMMARY, _EPILOG)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--admin", metavar="URL", help=f"the URL of the cluster's admin HTTP ({DEFAULT_ADMIN_URL})")
    where.add_argument(
        "--attach",
        metavar="PID",
        nargs="?",
        const=0,
        type=int,
        help="the cluster of a test that runs, or stands in a debugger; PID: of that process, if there are several",
    )
    parser.add_argument("--readonly", action="store_true", help="change nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show the cluster until the user quits; return the exit code."""
    if find_spec("textual") is None:
        from purgatorio import extras

        print(f"purgatorio: top needs an extra: {extras.install('top')}", file=sys.stderr)
        return 2
    from purgatorio.admin.cli.admin_client import AdminClient, AdminError
    from purgatorio.admin.cli.top.app import Top

    try:
        url = args.admin or os.environ.get(ADMIN_VARIABLE) or DEFAULT_ADMIN_URL
        if args.attach is not None:
            url = _attached(args.attach)
        Top(AdminClient(url, os.environ.get(TOKEN_VARIABLE)), readonly=args.readonly).run()
    except CommandRefused as refused:
        print(f"purgatorio: {refused}", file=sys.stderr)
        return refused.code
    except AdminError as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 2
    return 0


def _attached(pid: int) -> str:
    """Return the admin URL of a running test's cluster.

    Raises:
        CommandRefused: there is none, or there are several.
    """
    from purgatorio.admin.web.attach import running_tests

    found = [each for each in running_tests() if pid in (0, each.pid)]
    if not found:
        where = f"in process {pid}" if pid else "of this user"
        raise CommandRefused(f"there is no test {where} that has a cluster now", 1)
    if len({each.pid for each in found}) > 1:
        names = "\n".join(f"  --attach {each.pid}: {each.where}" for each in found)
        raise CommandRefused(f"several tests have clusters; choose one:\n{names}", 1)
    return found[-1].url
