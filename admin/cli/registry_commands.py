"""``purgatorio registry``: installs a schema registry."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from purgatorio.admin.cli.command import add_parser

REGISTRY_HOME_VARIABLE: Final = "PURGATORIO_REGISTRY_HOME"

_EPILOG: Final = """\
Karapace is installed from its source into an environment of its own, for which pip needs Python 3.12 or newer, git,
Go and a C compiler. Apicurio Registry is fetched by Maven, and needs Java 21 or newer. Both go into a folder below
~/.local/share, or the one that the environment variable PURGATORIO_REGISTRY_HOME names. `purgatorio cluster --registry`
runs the one that is there.
"""


def add_registry(commands: Any) -> None:
    """Add `purgatorio registry` with its commands."""
    group = add_parser(commands, "registry", "install a schema registry, to run beside a cluster", _EPILOG)
    of_registry = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    install = add_parser(of_registry, "install", "install a schema registry", _EPILOG)
    install.set_defaults(run=_install)
    install.add_argument("--kind", metavar="NAME", default="karapace", help="karapace or apicurio (karapace)")
    install.add_argument(
        "--from",
        metavar="SOURCE",
        dest="source",
        help="another version: what pip takes, such as a folder or a wheel; for apicurio coordinates of Maven",
    )
    guard = of_registry.add_parser("guard")  # of this program's own, not for users: without help it is not listed
    guard.set_defaults(run=_guard)
    guard.add_argument("words", nargs=argparse.REMAINDER)


def _install(args: argparse.Namespace) -> int:
    from purgatorio.registry import RegistryUnavailable
    from purgatorio.registry.installing import install

    try:
        folder = install(args.kind, args.source)
    except RegistryUnavailable as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 1
    print(f"{args.kind} is installed in {folder}")
    return 0


def _guard(args: argparse.Namespace) -> int:
    from purgatorio.registry.guard import run

    words: list[str] = args.words
    return run(words[1:] if words[:1] == ["--"] else words)
