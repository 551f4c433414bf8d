"""``purgatorio share-groups``: list, describe and delete share groups, reset offsets, let locks run out."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    Show,
    partition_of,
    print_further,
    print_table,
    seconds_of,
)
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.reset_command import add_reset
from purgatorio.admin.operations.share_groups import ResetShareOffsets


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    columns: Columns = {
        "GROUP": "id",
        "PARTITIONS": "partition_count",
        "IN FLIGHT": "in_flight",
        "ACQUIRED": "acquired",
        "DONE": "done",
        "LOCKS": "lock_count",
    }
    print_table(columns, listed["share_groups"], "no member of a share group fetches from these brokers")
    print_further(listed["share_group_count"] - len(listed["share_groups"]))


def _show_group(group: Answer, args: argparse.Namespace) -> None:
    print(f"share group {printable(group['id'])}: {len(group['members'])} members fetch")
    letters = group["dead_letters"]
    if letters["topic"] is not None or letters["requests"]:
        topic = "none any more" if letters["topic"] is None else printable(letters["topic"])
        print(f"dead-letter topic {topic}: {letters['written']} records written, {letters['failures']} requests failed")
    for row in group["partitions"]:
        print()
        offsets = f"start offset {row['start_offset']}, end offset {row['end_offset']}"
        print(f"{partition_of(row)}: {row['state']}, leader broker {row['leader']}, {offsets}")
        _print_batches(row)
    print_further(group["partition_count"] - len(group["partitions"]), " partitions")


def _print_batches(partition: Answer) -> None:
    columns: Columns = {
        "OFFSETS": _offsets,
        "STATE": lambda row: row["state"] if row["becomes"] is None else f"{row['state']}, becomes {row['becomes']}",
        "DELIVERIES": "delivery_count",
        "MEMBER": lambda row: row["member"] or "-",
        "LOCK LEFT": lambda row: "-" if row["lock_left_ms"] is None else seconds_of(row["lock_left_ms"]),
    }
    print_table(columns, partition["batches"], "no records in flight")
    print_further(partition["batch_count"] - len(partition["batches"]), " batches")


def _offsets(row: Answer) -> str:
    first, last = row["first_offset"], row["last_offset"]
    return str(first) if first == last else f"{first}-{last}"


ADDED: Final[dict[str, Add]] = {"share-groups": partial(add_reset, ResetShareOffsets)}
SHOWN: Final[dict[str, Show]] = {"share-groups list": _show_list, "share-groups describe": _show_group}
