"""``purgatorio tier``: what the tier has of topics, offloading them, holding its reads and copies, verifying it."""

from __future__ import annotations

import argparse
from typing import Final

from purgatorio.admin.cli.command import Answer, Columns, Show, print_further, print_table
from purgatorio.admin.cli.printable import printable

_TOPICS: Final[Columns] = {
    "TOPIC": "topic",
    "PARTITIONS": "partition_count",
    "SEGMENTS": "segment_count",
    "IN TIER": lambda row: _size(row["remote_bytes"]),
    "IN MEMORY": lambda row: _size(row["local_bytes"]),
    "NOT COPIED": lambda row: _size(row["uncopied_bytes"]),
}
_KINDS: Final = {"remote": "tier", "both": "tier and memory", "local": "memory", "damaged": "damaged"}
_PARTITIONS: Final[Columns] = {
    "PARTITION": "name",
    "LEADER": "leader",
    "SEGMENTS": "segment_count",
    "IN TIER": lambda row: _size(row["remote_bytes"]),
    "IN MEMORY": lambda row: _size(row["local_bytes"]),
    "NOT COPIED": lambda row: _size(row["uncopied_bytes"]),
    "RECORDS": lambda row: _runs(row),
}
_DAMAGED: Final[Columns] = {"PARTITION": "name", "FROM OFFSET": "start_offset", "DAMAGE": "why"}


def _size(size_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= 0.9995 * size:  # 999,600 B are 1 MB, as rounded
            return f"{size_bytes / size:.3g} {unit}"
    return f"{size_bytes} B"


def _runs(row: Answer) -> str:
    return ", ".join(map(_run, row["runs"])) or "none"


def _run(run: Answer) -> str:
    said = f"[{run['start']}, {run['end']}) {_KINDS[run['kind']]}"
    return f"{said} ({printable(run['trouble'])})" if run["trouble"] else said


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    if listed["location"] is None:
        print("the cluster has no tier: begin it with --tier DIR")
        return
    print(f"tier: {printable(listed['location'])}")
    if listed["trouble"]:
        print(f"it cannot be used: {printable(listed['trouble'])}")
    print_table(_TOPICS, listed["topics"], "no topic has a part in it: set remote.storage.enable of one to true")


def _show_topic(shown: Answer, args: argparse.Namespace) -> None:
    rows = [{**row, "name": f"{shown['topic']}-{row['partition']}"} for row in shown["partitions"]]
    print_table(_PARTITIONS, rows, "no partition has a leader")
    for row in shown["partitions"]:
        name = f"{printable(shown['topic'])}-{row['partition']}"
        if row["trouble"]:
            print(f"{name}: {printable(row['trouble'])}")
        for damage in row["damaged"]:
            print(f"{name} is damaged: {printable(damage)}")


def _show_offloaded(answer: Answer, args: argparse.Namespace) -> None:
    print(f"{printable(answer['topic'])}: {_size(answer['dropped_bytes'])} left memory")
    _show_topic(answer, args)


def _show_verified(answer: Answer, args: argparse.Namespace) -> int:
    count, partitions = answer["segment_count"], answer["partition_count"]
    what = f"{count} segment{'s' * (count != 1)} of {partitions} partition{'s' * (partitions != 1)}"
    if not answer["damaged_count"]:
        print(f"{what} of {printable(answer['topic'])} are as they were written: {_size(answer['size_bytes'])}")
        return 0
    print(f"{answer['damaged_count']} of {what} of {printable(answer['topic'])} are damaged:")
    print_table(_DAMAGED, [{**row, "name": f"{answer['topic']}-{row['partition']}"} for row in answer["damaged"]])
    print_further(answer["damaged_count"] - len(answer["damaged"]))
    return 1


SHOWN: Final[dict[str, Show]] = {
    "tier list": _show_list,
    "tier show": _show_topic,
    "tier offload": _show_offloaded,
    "tier verify": _show_verified,
}
