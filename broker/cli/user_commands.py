"""``purgatorio users``: the users of a running cluster with SCRAM credentials."""

from __future__ import annotations

import argparse
import base64
import secrets
import sys
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
_SALT_BYTES: Final = 24


def add_user_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    users = add_group(commands, "users", "add, list and delete users that log in by SCRAM")
    add = _add(users, "add", _set, "add a user, or change the password of one")
    add.add_argument(
        "--password", metavar="TEXT", help="the password; without it you are asked, or it is read from a pipe"
    )
    add.add_argument(
        "--iterations",
        metavar="N",
        type=_iterations,
        default=MIN_ITERATIONS,
        help=f"{MIN_ITERATIONS} (the default) to {MAX_ITERATIONS}: more make each login of the client slower",
    )
    add_command(users, "list", _list, "list the users with their mechanisms")
    _add(users, "delete", _delete, "delete a user's credential; open connections stay")


def _add(commands: Any, name: str, run: Any, summary: str) -> Any:
    parser = add_command(commands, name, run, summary)
    parser.add_argument("user", metavar="USER", help="the user's name")
    parser.add_argument("--mechanism", metavar="NAME", choices=MECHANISMS, required=True, help=" or ".join(MECHANISMS))
    return parser


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

        return getpass.getpass(f"password of {printable(args.user)}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _set(admin: AdminClient, args: argparse.Namespace) -> int:
    import hashlib

    password = _password(args)
    if not password:
        print("error: the password is empty", file=sys.stderr)
        return 2
    salt = secrets.token_bytes(_SALT_BYTES)
    kind = "sha256" if args.mechanism == MECHANISMS[0] else "sha512"
    salted = hashlib.pbkdf2_hmac(kind, password.encode(), salt, args.iterations)
    body = {
        "name": args.user,
        "mechanism": args.mechanism,
        "iterations": args.iterations,
        "salt": base64.b64encode(salt).decode(),
        "salted_password": base64.b64encode(salted).decode(),
    }
    admin.post("users/set", body)
    print(f"user {printable(args.user)} can log in by {args.mechanism}")
    return 0


def _delete(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post("users/delete", {"name": args.user, "mechanism": args.mechanism})
    print(f"user {printable(args.user)} can no longer log in by {args.mechanism}")
    return 0


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    listed = admin.get("users")
    if not listed["users"]:
        print("no user has SCRAM credentials")
        return 0
    rows = [(printable(each["name"]), each["mechanism"], each["iterations"]) for each in listed["users"]]
    print_table(("USER", "MECHANISM", "ITERATIONS"), rows)
    further = listed["credential_count"] - len(rows)
    if further > 0:
        print(f"and {further} more")
    return 0
