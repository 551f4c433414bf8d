"""``purgatorio acls``: the access control lists of a running cluster."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Refused, add_command, print_further, print_table
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.declare import Operation
from purgatorio.broker.operations.security import AddAcls, ListAcls, RemoveAcls

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

FORM: Final = (
    "allow|deny PRINCIPAL OPERATION[,OPERATION] RESOURCE [NAME] [from HOST]: allow User:alice READ,WRITE topic orders; "
    "allow User:alice READ group 'billing-*'; deny 'User:*' ALL topic secret from 10.0.0.1; "
    "allow User:alice CREATE cluster"
)
"""What the words of an ACL are."""


def add(commands: Any) -> None:
    """Add the commands, in which an ACL is several words."""
    kinds: tuple[tuple[str, type[Operation], str], ...] = (
        ("add", AddAcls, "let a principal do something, or not; answers when all brokers know"),
        ("remove", RemoveAcls, "remove an ACL, in the words by which it is listed"),
    )
    for name, kind, summary in kinds:
        parser = add_command(commands, name, partial(_change, kind), _show_changed, summary)
        parser.set_defaults(done="added" if name == "add" else "removed")
        parser.add_argument("acl", metavar="WORD", nargs="+", help=FORM.replace("%", "%%"))
    listing = add_command(commands, "list", _list, _show, "list the ACLs, oldest first")
    listing.add_argument("--principal", metavar="NAME", help="only this principal's, e.g. User:alice")
    listing.add_argument("--resource", metavar="TYPE", help="only those about topics, groups … (topic, group, cluster)")


def _change(kind: type[Operation], admin: AdminClient, args: argparse.Namespace) -> Answer:
    return send(kind, admin, {"acls": [args.acl]})


def _show_changed(answer: Answer, args: argparse.Namespace) -> None:
    for each in answer["acls"]:
        print(f"{args.done}: {printable(each['text'])}")


def _list(admin: AdminClient, args: argparse.Namespace) -> Answer:
    listed = send(ListAcls, admin, {"limit": 10_000})
    if not listed["authorizer"]:
        raise Refused("the cluster has no authorizer: every client may do everything", 1)
    wanted = [
        each
        for each in listed["acls"]
        if args.principal in (None, each["principal"])
        and (args.resource is None or each["resource_type"] == args.resource.upper().replace("-", "_"))
    ]
    return {**listed, "acls": wanted, "further": listed["acl_count"] - len(listed["acls"])}


def _show(listed: Answer, args: argparse.Namespace) -> None:
    if not listed["acls"]:
        print("no ACL is listed")
        return
    rows = [
        (
            each["permission"].lower(),
            printable(each["principal"]),
            each["operation"],
            each["resource_type"].lower().replace("_", "-"),
            "" if each["resource_type"] == "CLUSTER" else printable(_name(each)),
            "" if each["host"] == "*" else f"from {printable(each['host'])}",
        )
        for each in listed["acls"]
    ]
    print_table(("ACL", "PRINCIPAL", "OPERATION", "RESOURCE", "NAME", "HOST"), rows)
    print_further(listed["further"])


def _name(acl: dict[str, str]) -> str:
    return acl["resource_name"] + "*" * (acl["pattern_type"] == "PREFIXED")
