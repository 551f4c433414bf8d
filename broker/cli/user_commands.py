"""``purgatorio users``: the users of a running cluster with SCRAM credentials."""

from __future__ import annotations

import argparse
import base64
import secrets
import sys
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Refused, Show, add_command, print_further, print_table, says
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.security import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SetUser

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

_SALT_BYTES: Final = 24


def add(commands: Any) -> None:
    """Add the command that salts a password."""
    summary = "add a user, or change the password of one"
    adding = add_command(commands, "add", _set, says("user {name} can log in by {mechanism}"), summary)
    adding.add_argument("name", metavar="USER", help="the user's name")
    adding.add_argument("--mechanism", metavar="NAME", choices=MECHANISMS, required=True, help=" or ".join(MECHANISMS))
    adding.add_argument(
        "--password", metavar="TEXT", help="the password; without it you are asked, or it is read from a pipe"
    )
    adding.add_argument(
        "--iterations",
        metavar="N",
        type=_iterations,
        default=MIN_ITERATIONS,
        help=f"{MIN_ITERATIONS} (the default) to {MAX_ITERATIONS}: more make each login of the client slower",
    )


def _iterations(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0
    if not MIN_ITERATIONS <= number <= MAX_ITERATIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return number


def _password(args: argparse.Namespace) -> str:
    if args.password is not None:
        return str(args.password)
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass(f"password of {printable(args.name)}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _set(admin: AdminClient, args: argparse.Namespace) -> Answer:
    import hashlib

    password = _password(args)
    if not password:
        raise Refused("error: the password is empty", 2)
    salt = secrets.token_bytes(_SALT_BYTES)
    kind = "sha256" if args.mechanism == MECHANISMS[0] else "sha512"
    salted = hashlib.pbkdf2_hmac(kind, password.encode(), salt, args.iterations)
    body = {
        "name": args.name,
        "mechanism": args.mechanism,
        "iterations": args.iterations,
        "salt": base64.b64encode(salt).decode(),
        "salted_password": base64.b64encode(salted).decode(),
    }
    return send(SetUser, admin, body)


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    if not listed["users"]:
        print("no user has SCRAM credentials")
        return
    rows = [(printable(each["name"]), each["mechanism"], each["iterations"]) for each in listed["users"]]
    print_table(("USER", "MECHANISM", "ITERATIONS"), rows)
    print_further(listed["credential_count"] - len(rows))


SHOWN: Final[dict[str, Show]] = {"list": _show_list}
