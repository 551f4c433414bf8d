"""``purgatorio snapshot``: save what a running cluster has, and make it so again."""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatorio.broker.cli.command import Answer, Show, print_table
from purgatorio.broker.cli.printable import printable


def _show_taken(taken: Answer, args: argparse.Namespace) -> None:
    print(f"snapshot {printable(taken['name'])} has {_content(taken)}")


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    rows = [
        (printable(row["name"]), row["topic_count"], row["size_bytes"], printable(" ".join(row["topics"])))
        for row in listed["snapshots"]
    ]
    if rows:
        print_table(("SNAPSHOT", "TOPICS", "BYTES", "NAMES"), rows)
    else:
        print("there are no snapshots")


def _show_restored(restored: Answer, args: argparse.Namespace) -> None:
    print(f"the cluster is as it was at snapshot {printable(args.name)}, with {_content(restored)}")


def _content(snapshot: dict[str, Any]) -> str:
    topics = snapshot["topic_count"]
    return f"{topics} {'topic' if topics == 1 else 'topics'}, {snapshot['size_bytes']} bytes"


SHOWN: Final[dict[str, Show]] = {"take": _show_taken, "list": _show_list, "restore": _show_restored}
