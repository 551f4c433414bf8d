"""``purgatorio topics``: list, create, describe, alter and delete topics, elect leaders, and move them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    CommandRefused,
    Show,
    Wire,
    admin_of,
    near,
    partition_of,
    positive,
    print_further,
    print_table,
)
from purgatorio.admin.cli.config_commands import add_changes, show_altered
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.wire_command import add_wire_command, by_wire


def _show_topics(listed: Answer, args: argparse.Namespace) -> None:
    partitions = listed["partitions"]
    if args.topic is not None and not partitions:
        raise CommandRefused(f"purgatorio: there is no topic {args.topic}{_near_topic(args)}", 1)
    hidden = {row["topic"] for row in partitions if row["internal"]} if args.topic is None else set()
    shown = [row for row in partitions if row["topic"] not in hidden or row["offline"]]
    columns: Columns = {
        "PARTITION": partition_of,
        "LEADER": lambda row: "offline" if row["offline"] else row["leader"],
        "EPOCH": "leader_epoch",
        "REPLICAS": lambda row: _ids(row["replicas"]),
        "ISR": lambda row: _ids(row["isr"]),
        "ELR": lambda row: "" if row["elr"] is None else _ids(row["elr"]),  # Kafka's metadata do not have it
        "REASSIGNED": lambda row: _reassignment(row["reassignment"]),
    }
    print_table(columns, shown)
    internal = f", those of {' and '.join(sorted(hidden))}" if hidden else ""
    print_further(listed["partition_count"] - len(shown), f"{internal}; --topic lists those of one topic")
    if listed["offline_count"]:
        print(f"{_partitions(listed['offline_count'])} offline: no live broker has all records")
        print("to elect leaders without the lost records: purgatorio topics elect --unclean")


def _near_topic(args: argparse.Namespace) -> str:
    """Return which topic may be meant."""
    from purgatorio.admin.cli.operation_commands import send
    from purgatorio.admin.operations.topics import ListTopics

    rows = send(ListTopics, admin_of(args), {})["partitions"]
    return near(args.topic, sorted({row["topic"] for row in rows if not row["internal"]}))


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


def _show_topic(topic: Answer, args: argparse.Namespace) -> None:
    count = topic["partition_count"]
    replicas = "1 replica" if topic["replicas"] == 1 else f"{topic['replicas']} replicas"
    print(f"topic {printable(topic['topic'])}: {count} partition{'s' * (count != 1)}, {replicas}")
    for each in topic["configs"]:
        print(f"  {printable(each['name'])}={printable(each['value'] or '')}")
    print()
    columns: Columns = {
        "PARTITION": partition_of,
        "LEADER": lambda row: "offline" if row["offline"] else row["leader"],
        "EPOCH": "leader_epoch",
        "REPLICAS": lambda row: _ids(row["replicas"]),
        "ISR": lambda row: _ids(row["isr"]),
        "START": "start_offset",
        "END": "end_offset",
    }
    print_table(columns, topic["partitions"])
    print_further(count - len(topic["partitions"]), "; --limit says how many are shown")


def _show_deleted(answer: Answer, args: argparse.Namespace) -> None:
    for name in answer["deleted"]:
        print(f"topic {printable(name)} is deleted")
    if answer["refused"]:
        raise CommandRefused("\n".join(f"purgatorio: {printable(each)}" for each in answer["refused"]), 1)


def _show_created(answer: Answer, args: argparse.Namespace) -> None:
    count = answer["partition_count"]
    print(f"topic {printable(answer['topic'])} has {count} partition{'s' * (count != 1)}")


def _show_grown(answer: Answer, args: argparse.Namespace) -> None:
    print(
        f"topic {printable(answer['topic'])} has {answer['partition_count']} partitions, {answer['added']} of them new"
    )


def _add_verbs(commands: Any) -> None:
    """Add the commands that speak Kafka's protocol."""
    describe = add_wire_command(
        commands,
        "describe",
        by_wire("topics.describe"),
        _show_topic,
        "a topic: leader, replicas, first and end offset of each partition, and the configs that are set",
    )
    describe.add_argument("topic", metavar="TOPIC", help="the topic")
    describe.add_argument("--limit", metavar="N", type=int, help="how many partitions (1000)")
    alter = add_wire_command(
        commands, "alter", by_wire("configs.alter"), show_altered, "set and unset configs of a topic"
    )
    alter.set_defaults(kind="topic")
    alter.add_argument("name", metavar="TOPIC", help="the topic")
    add_changes(alter)
    delete = add_wire_command(
        commands, "delete", by_wire("topics.delete"), _show_deleted, "delete topics, with their records"
    )
    delete.add_argument("topics", metavar="TOPIC", nargs="+", help="a topic")
    grow = add_wire_command(
        commands, "add-partitions", by_wire("topics.add_partitions"), _show_grown, "add partitions to a topic"
    )
    grow.add_argument("topic", metavar="TOPIC", help="the topic")
    grow.add_argument("count", metavar="N", type=positive, help="how many are added to those that it has")


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def _partitions(count: int) -> str:
    return "1 partition is" if count == 1 else f"{count} partitions are"


SHOWN: Final[dict[str, Show]] = {
    "topics create": _show_created,
    "topics list": _show_topics,
    "topics elect": _show_elected,
    "topics compact": _show_compacted,
}
ADDED: Final[dict[str, Add]] = {"topics": _add_verbs}
BY_WIRE: Final[dict[str, Wire]] = {
    "topics list": by_wire("topics.list_topics"),
    "topics create": by_wire("topics.create"),
}
