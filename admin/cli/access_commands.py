"""``purgatorio users``, ``quotas`` and ``acls``: what the clients of a running cluster may do."""

from __future__ import annotations

import argparse
import base64
import secrets
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    CommandRefused,
    Show,
    add_command,
    print_further,
    print_table,
    says,
    table,
)
from purgatorio.admin.cli.operation_commands import send
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.security import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    AddAcls,
    EditQuotas,
    ListAcls,
    RemoveAcls,
    SetUser,
)

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient

_SALT_BYTES: Final = 24


def _add_to_users(commands: Any) -> None:
    """Add the command that salts a password."""
    summary = "add a user, or change the password of one"
    adding = add_command(commands, "add", _set_user, says("user {name} can log in by {mechanism}"), summary)
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


def _set_user(admin: AdminClient, args: argparse.Namespace) -> Answer:
    import hashlib

    password = _password(args)
    if not password:
        raise CommandRefused("error: the password is empty", 2)
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


# --- quotas ---

_ENTITY = (("user", "user"), ("client_id", "client"), ("ip", "ip"))
"""The parts of an entity: their names in the API, and as options."""


def _add_to_quotas(commands: Any) -> None:
    """Add the commands that edit the quotas of an entity."""
    setting = _add_edit(
        commands,
        "set",
        partial(_edit, dict),
        "set quotas: purgatorio quotas set --client billing producer_byte_rate=1e6",
    )
    setting.add_argument("quotas", metavar="NAME=VALUE", nargs="+", type=_assignment, help="a quota by Kafka's name")
    removing = _add_edit(commands, "remove", partial(_edit, dict.fromkeys), "remove quotas of an entity")
    removing.add_argument("quotas", metavar="NAME", nargs="+", help="a quota by Kafka's name")


def _add_edit(commands: Any, name: str, ask: Any, summary: str) -> Any:
    parser = add_command(commands, name, ask, _show_edited, summary)
    for kind, option in _ENTITY:
        of = parser.add_mutually_exclusive_group()
        of.add_argument(f"--{option}", dest=kind, metavar="NAME", help=f"the {option} that they are for")
        of.add_argument(
            f"--default-{option}",
            dest=f"default_{kind}",
            action="store_true",
            help=f"for each other {option}",
        )
    return parser


def _assignment(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER") from None


def _entity(args: argparse.Namespace) -> dict[str, str | None]:
    given: dict[str, str | None] = {}
    for kind, _ in _ENTITY:
        if getattr(args, kind) is not None or getattr(args, f"default_{kind}"):
            given[kind] = getattr(args, kind)
    return given


def _edit(values_of: Callable[[Any], Answer], admin: AdminClient, args: argparse.Namespace) -> Answer:
    entity = _entity(args)
    if not entity:
        raise CommandRefused("error: for whom? --user, --client or --ip, or the default of one of them", 2)
    return {**entity, **send(EditQuotas, admin, {**entity, "quotas": values_of(args.quotas)})}


def _show_edited(edited: Answer, args: argparse.Namespace) -> None:
    print(f"{_shown(edited)}: {', '.join(_shown_quota(*each) for each in edited['quotas'].items())}")


def _show_quotas(listed: Answer, args: argparse.Namespace) -> None:
    rows = [(entity, quota) for entity in listed["quotas"] for quota in entity["quotas"].items()]
    columns: Columns = {"FOR": lambda row: _shown(row[0]), "QUOTA": lambda row: _shown_quota(*row[1])}
    print_table(columns, rows, "there are no quotas")
    further = listed["entity_count"] - len(listed["quotas"])
    if further > 0:
        print(f"and those of {further} more")


def _shown(entity: dict[str, Any]) -> str:
    parts = [(option, entity[kind]) for kind, option in _ENTITY if kind in entity]
    return ", ".join(f"default {option}" if name is None else f"{option} {printable(name)}" for option, name in parts)


def _shown_quota(name: str, value: float | None) -> str:
    return f"no {name}" if value is None else f"{name}={value:g}" if value < 1e6 else f"{name}={value:.0f}"


# --- access control lists ---

FORM: Final = (
    "allow|deny PRINCIPAL OPERATION[,OPERATION] RESOURCE [NAME] [from HOST]: allow User:alice READ,WRITE topic orders; "
    "allow User:alice READ group 'billing-*'; deny 'User:*' ALL topic secret from 10.0.0.1; "
    "allow User:alice CREATE cluster"
)
"""The words of an ACL."""


def _add_to_acls(commands: Any) -> None:
    """Add the commands, in which an ACL is several words."""
    kinds: tuple[tuple[str, type[Operation], str], ...] = (
        ("add", AddAcls, "let a principal do something, or not; answers when all brokers know"),
        ("remove", RemoveAcls, "remove an ACL, in the words by which it is listed"),
    )
    for name, kind, summary in kinds:
        parser = add_command(commands, name, partial(_change_acls, kind), _show_changed, summary)
        parser.set_defaults(done="added" if name == "add" else "removed")
        parser.add_argument("acl", metavar="WORD", nargs="+", help=FORM.replace("%", "%%"))
    listing = add_command(
        commands,
        "list",
        _list_acls,
        _show_acls,
        "list the ACLs, oldest first",
    )
    listing.add_argument("--principal", metavar="NAME", help="only this principal's, e.g. User:alice")
    listing.add_argument("--resource", metavar="TYPE", help="only those about topics, groups … (topic, group, cluster)")


def _change_acls(kind: type[Operation], admin: AdminClient, args: argparse.Namespace) -> Answer:
    return send(kind, admin, {"acls": [args.acl]})


def _show_changed(answer: Answer, args: argparse.Namespace) -> None:
    for each in answer["acls"]:
        print(f"{args.done}: {printable(each['text'])}")


def _list_acls(admin: AdminClient, args: argparse.Namespace) -> Answer:
    listed = send(ListAcls, admin, {"limit": 10_000})
    if not listed["authorizer"]:
        raise CommandRefused("the cluster has no authorizer: every client may do everything", 1)
    wanted = [
        each
        for each in listed["acls"]
        if args.principal in (None, each["principal"])
        and (args.resource is None or each["resource_type"] == args.resource.upper().replace("-", "_"))
    ]
    return {**listed, "acls": wanted, "further": listed["acl_count"] - len(listed["acls"])}


def _show_acls(listed: Answer, args: argparse.Namespace) -> None:
    print_table(_ACLS, listed["acls"], "no ACL is listed")
    if listed["acls"]:
        print_further(listed["further"])


def _acl_name(acl: dict[str, str]) -> str:
    return acl["resource_name"] + "*" * (acl["pattern_type"] == "PREFIXED")


_ACLS: Final[Columns] = {
    "ACL": lambda acl: acl["permission"].lower(),
    "PRINCIPAL": "principal",
    "OPERATION": "operation",
    "RESOURCE": lambda acl: acl["resource_type"].lower().replace("_", "-"),
    "NAME": lambda acl: "" if acl["resource_type"] == "CLUSTER" else _acl_name(acl),
    "HOST": lambda acl: "" if acl["host"] == "*" else f"from {acl['host']}",
}
_USERS: Final[Columns] = {"USER": "name", "MECHANISM": "mechanism", "ITERATIONS": "iterations"}
ADDED: Final[dict[str, Add]] = {"users": _add_to_users, "quotas": _add_to_quotas, "acls": _add_to_acls}
SHOWN: Final[dict[str, Show]] = {
    "users list": table("users", _USERS, "no user has SCRAM credentials", "credential_count"),
    "quotas list": _show_quotas,
}
