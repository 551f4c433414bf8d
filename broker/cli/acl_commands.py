"""``purgatorio acls``: the access control lists of a running cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

FORM: Final = (
    "allow|deny PRINCIPAL OPERATION[,OPERATION] RESOURCE [NAME] [from HOST]: allow User:alice READ,WRITE topic orders; "
    "allow User:alice READ group 'billing-*'; deny 'User:*' ALL topic secret from 10.0.0.1; "
    "allow User:alice CREATE cluster"
)
"""What the words of an ACL are."""


def add_acl_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    acls = add_group(commands, "acls", "add, list and remove access control lists")
    for name, run, summary in (
        ("add", _add, "let a principal do something, or not; answers when all brokers know"),
        ("remove", _remove, "remove an ACL, in the words by which it is listed"),
    ):
        parser = add_command(acls, name, run, summary)
        parser.add_argument("acl", metavar="WORD", nargs="+", help=FORM.replace("%", "%%"))
    listing = add_command(acls, "list", _list, "list the ACLs, oldest first")
    listing.add_argument("--principal", metavar="NAME", help="only this principal's, e.g. User:alice")
    listing.add_argument("--resource", metavar="TYPE", help="only those about topics, groups … (topic, group, cluster)")


def _add(admin: AdminClient, args: argparse.Namespace) -> int:
    for each in admin.post("acls/add", {"acls": [args.acl]})["acls"]:
        print(f"added: {printable(each['text'])}")
    return 0


def _remove(admin: AdminClient, args: argparse.Namespace) -> int:
    for each in admin.post("acls/remove", {"acls": [args.acl]})["acls"]:
        print(f"removed: {printable(each['text'])}")
    return 0


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    listed = admin.get("acls?limit=10000")
    if not listed["authorizer"]:
        print("the cluster has no authorizer: every client may do everything", file=sys.stderr)
        return 1
    wanted = [
        each
        for each in listed["acls"]
        if args.principal in (None, each["principal"])
        and (args.resource is None or each["resource_type"] == args.resource.upper().replace("-", "_"))
    ]
    if not wanted:
        print("no ACL is listed")
        return 0
    rows = [
        (
            each["permission"].lower(),
            printable(each["principal"]),
            each["operation"],
            each["resource_type"].lower().replace("_", "-"),
            "" if each["resource_type"] == "CLUSTER" else printable(_name(each)),
            "" if each["host"] == "*" else f"from {printable(each['host'])}",
        )
        for each in wanted
    ]
    print_table(("ACL", "PRINCIPAL", "OPERATION", "RESOURCE", "NAME", "HOST"), rows)
    further = listed["acl_count"] - len(listed["acls"])
    if further > 0:
        print(f"and {further} more")
    return 0


def _name(acl: dict[str, str]) -> str:
    return acl["resource_name"] + "*" * (acl["pattern_type"] == "PREFIXED")
