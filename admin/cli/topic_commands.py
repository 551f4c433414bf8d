"""``purgatorio topics``: list partitions with their leaders and replicas, elect leaders, and move them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from purgatorio.admin.cli.command import (
    Answer,
    Columns,
    CommandRefused,
    Show,
    partition_of,
    print_further,
    print_table,
)
from purgatorio.admin.cli.printable import printable


def _show_topics(listed: Answer, args: argparse.Namespace) -> None:
    partitions = listed["partitions"]
    if args.topic is not None and not partitions:
        raise CommandRefused(f"purgatorio: there is no topic {args.topic}", 1)
    hidden = {row["topic"] for row in partitions if row["internal"]} if args.topic is None else set()
    shown = [row for row in partitions if row["topic"] not in hidden or row["offline"]]
    columns: Columns = {
        "PARTITION": partition_of,
        "LEADER": lambda row: "offline" if row["offline"] else row["leader"],
        "EPOCH": "leader_epoch",
        "REPLICAS": lambda row: _ids(row["replicas"]),
        "ISR": lambda row: _ids(row["isr"]),
        "ELR": lambda row: _ids(row["elr"]),
        "REASSIGNED": lambda row: _reassignment(row["reassignment"]),
    }
    print_table(columns, shown)
    internal = f", those of {' and '.join(sorted(hidden))}" if hidden else ""
    print_further(listed["partition_count"] - len(shown), f"{internal}; --topic lists those of one topic")
    if listed["offline_count"]:
        print(f"{_partitions(listed['offline_count'])} offline: no live broker has all records")
        print("to elect leaders without the lost records: purgatorio topics elect --unclean")


def _reassignment(change: dict[str, list[int]] | None) -> str:
    if change is None:
        return ""
    return " ".join([f"+{id_}" for id_ in change["adding"]] + [f"-{id_}" for id_ in change["removing"]])


def _show_elected(answer: Answer, args: argparse.Namespace) -> int:
    results = answer["partitions"]
    refused = 0
    for row in results:
        name = partition_of(row)
        if row["error"] == "NONE":
            print(f"{name}: broker {row['leader']} is the leader in epoch {row['leader_epoch']}")
        else:
            print(f"{name}: {row['error']}: {row['message']}")
            refused += row["error"] != "ELECTION_NOT_NEEDED"
    if not results:
        print("no partition needs an election")
    return 1 if refused else 0


def _show_compacted(answer: Answer, args: argparse.Namespace) -> None:
    print("all compacted topics are compacted" if args.topic is None else f"{printable(args.topic)} is compacted")


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def _partitions(count: int) -> str:
    return "1 partition is" if count == 1 else f"{count} partitions are"


SHOWN: Final[dict[str, Show]] = {
    "topics list": _show_topics,
    "topics elect": _show_elected,
    "topics compact": _show_compacted,
}
