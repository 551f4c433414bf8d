"""``purgatorio topics``: list partitions with their leaders and replicas, elect leaders, and move them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from purgatorio.broker.cli.command import Command, add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient


def add_topic_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    topics = add_group(commands, "topics", "list partitions with their leaders and replicas, elect leaders, move them")
    listing = add_command(topics, "list", _list_topics, "list each partition's leader, replicas, ISR and ELR")
    listing.add_argument("--topic", metavar="TOPIC", help="only the partitions of this topic")
    elect = add_command(
        topics,
        "elect",
        _elect,
        "make the preferred replicas leaders; with --unclean, elect leaders where there is none",
    )
    elect.add_argument("--topic", metavar="TOPIC", help="only the partitions of this topic")
    elect.add_argument("--partition", metavar="N", type=int, help="only this partition of the topic")
    elect.add_argument(
        "--unclean",
        action="store_true",
        help="elect any live replica where there is no leader; acknowledged records that it lacks are lost",
    )
    move = _add_of_partition(
        topics,
        "move-leader",
        _move_leader,
        "have an in-sync replica lead a partition, until the preferred one is elected again",
    )
    move.add_argument("--to", metavar="BROKER", type=int, help="the broker (any other in-sync replica)")
    _add_of_partition(topics, "no-leader", _no_leader, "take a partition's leader away, until it is moved")
    compact = add_command(topics, "compact", _compact, "compact logs now, with their active segments")
    compact.add_argument("topic", metavar="TOPIC", nargs="?", help="only this one (all that are compacted)")
    add_command(topics, "apply-retention", _apply_retention, "delete now what is too old or too much")


def _add_of_partition(commands: Any, name: str, run: Command, summary: str) -> Any:
    parser = add_command(commands, name, run, summary)
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("partition", metavar="N", type=int, nargs="?", default=0, help="the partition (0)")
    return parser


def _list_topics(admin: AdminClient, args: argparse.Namespace) -> int:
    listed = admin.get("topics" + _query(args.topic))
    partitions = listed["partitions"]
    if args.topic is not None and not partitions:
        print(f"purgatorio: there is no topic {args.topic}", file=sys.stderr)
        return 1
    hidden = {row["topic"] for row in partitions if row["internal"]} if args.topic is None else set()
    shown = [row for row in partitions if row["topic"] not in hidden or row["offline"]]
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            "offline" if row["offline"] else row["leader"],
            row["leader_epoch"],
            _ids(row["replicas"]),
            _ids(row["isr"]),
            _ids(row["elr"]),
            _reassignment(row["reassignment"]),
        )
        for row in shown
    ]
    print_table(("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "ELR", "REASSIGNED"), rows)
    further = listed["partition_count"] - len(shown)
    if further > 0:
        internal = f", those of {' and '.join(sorted(hidden))}" if hidden else ""
        print(f"and {further} more{internal}; --topic lists those of one topic")
    if listed["offline_count"]:
        print(f"{_partitions(listed['offline_count'])} offline: no live broker has all records")
        print("to elect leaders without the lost records: purgatorio topics elect --unclean")
    return 0


def _query(topic: str | None) -> str:
    from urllib.parse import urlencode

    return "" if topic is None else "?" + urlencode({"topic": topic})


def _reassignment(change: dict[str, list[int]] | None) -> str:
    if change is None:
        return ""
    return " ".join([f"+{id_}" for id_ in change["adding"]] + [f"-{id_}" for id_ in change["removing"]])


def _elect(admin: AdminClient, args: argparse.Namespace) -> int:
    wanted = {"topic": args.topic, "partition": args.partition, "unclean": args.unclean}
    body = {name: value for name, value in wanted.items() if value is not None}
    results = admin.post("topics/elect", body)["partitions"]
    refused = 0
    for row in results:
        name = f"{row['topic']}-{row['partition']}"
        if row["error"] == "NONE":
            print(f"{name}: broker {row['leader']} is the leader in epoch {row['leader_epoch']}")
        else:
            print(f"{name}: {row['error']}: {row['message']}")
            refused += row["error"] != "ELECTION_NOT_NEEDED"
    if not results:
        print("no partition needs an election")
    return 1 if refused else 0


def _move_leader(admin: AdminClient, args: argparse.Namespace) -> int:
    to = {} if args.to is None else {"to": args.to}
    moved = admin.post("topics/move-leader", {"topic": args.topic, "partition": args.partition, **to})
    print(f"{printable(args.topic)}-{args.partition}: broker {moved['leader']} is the leader")
    return 0


def _no_leader(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post("topics/no-leader", {"topic": args.topic, "partition": args.partition})
    print(f"{printable(args.topic)}-{args.partition} has no leader, until one is moved there or a broker comes or goes")
    return 0


def _compact(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post("topics/compact", {} if args.topic is None else {"topic": args.topic})
    print("all compacted topics are compacted" if args.topic is None else f"{printable(args.topic)} is compacted")
    return 0


def _apply_retention(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post("topics/apply-retention")
    print("retention is applied")
    return 0


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def _partitions(count: int) -> str:
    return "1 partition is" if count == 1 else f"{count} partitions are"
