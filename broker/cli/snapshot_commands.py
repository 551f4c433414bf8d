"""``purgatorio snapshot``: save what a running cluster has, and make it so again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

RESTORE_TIMEOUT_SECONDS: Final = 60.0
"""Time limit of a restore; a cluster gives its brokers 10 s for each of four steps."""


def add_snapshot_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    snapshots = add_group(commands, "snapshot", "save what a running cluster has, and make it so again")
    take = add_command(snapshots, "take", _take, "save topics, records, groups, producers and transactions")
    take.add_argument("name", metavar="NAME", nargs="?", help="its name; a number if it is not given")
    add_command(snapshots, "list", _list, "list the snapshots; they live as long as the cluster")
    restore = add_command(snapshots, "restore", _restore, "make the cluster as it was; clients connect again")
    restore.add_argument("name", metavar="NAME", help="the snapshot's name, as listed")
    remove = add_command(snapshots, "remove", _remove, "forget a snapshot")
    remove.add_argument("name", metavar="NAME", help="the snapshot's name, as listed")


def _path(name: str) -> str:
    from urllib.parse import quote

    return f"snapshots/{quote(name, safe='')}"


def _take(admin: AdminClient, args: argparse.Namespace) -> int:
    taken = admin.post("snapshots", {} if args.name is None else {"name": args.name})
    print(f"snapshot {printable(taken['name'])} has {_content(taken)}")
    return 0


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    rows = [
        (printable(row["name"]), row["topic_count"], row["size_bytes"], printable(" ".join(row["topics"])))
        for row in admin.get("snapshots")["snapshots"]
    ]
    if rows:
        print_table(("SNAPSHOT", "TOPICS", "BYTES", "NAMES"), rows)
    else:
        print("there are no snapshots")
    return 0


def _restore(admin: AdminClient, args: argparse.Namespace) -> int:
    restored = admin.post(f"{_path(args.name)}/restore", timeout_seconds=RESTORE_TIMEOUT_SECONDS)
    print(f"the cluster is as it was at snapshot {printable(args.name)}, with {_content(restored)}")
    return 0


def _remove(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.delete(_path(args.name))
    print(f"snapshot {printable(args.name)} is removed")
    return 0


def _content(snapshot: dict[str, Any]) -> str:
    topics = snapshot["topic_count"]
    return f"{topics} {'topic' if topics == 1 else 'topics'}, {snapshot['size_bytes']} bytes"
