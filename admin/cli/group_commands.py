"""``purgatorio groups``: list, describe and delete groups, reset offsets, move coordinators, end sessions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    Show,
    Wire,
    partition_of,
    print_further,
    print_table,
    seconds_of,
)
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.reset_command import add_reset
from purgatorio.admin.cli.wire_command import by_wire
from purgatorio.admin.operations.groups import ResetOffsets

MEMBER_ID_CHARS: Final = 24
"""Characters that a table shows of a member's id, which ends with a random part."""


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    columns = {"GROUP": "id", "STATE": "state", "PROTOCOL": "type", "MEMBERS": "member_count", "LAG": "lag"}
    print_table({**columns, "COORDINATOR": "coordinator", "WAITS FOR": "waits_for"}, listed["groups"])
    print_further(listed["group_count"] - len(listed["groups"]))
    if listed["loading_partition_count"]:
        print("some groups are being loaded by their coordinators, and are not listed yet")


def _show_group(group: Answer, args: argparse.Namespace) -> None:
    epoch = f", {'generation' if group['type'] == 'classic' else 'epoch'} {group['epoch']}" if group["epoch"] else ""
    assignor = f", assignor {printable(group['assignor'])}" if group["assignor"] else ""
    about = f"{group['state']}{epoch}{assignor}, coordinator broker {group['coordinator']}"
    print(f"group {printable(group['id'])}: {about}")
    if group["waits_for"]:
        print(printable(group["waits_for"]))
    names = _names(group["members"])
    print()
    _print_members(group["members"], names)
    print_further(group["member_count"] - len(group["members"]), " members")
    print()
    if group["type"] == "share":
        print("a share group commits no offsets: purgatorio share-groups describe tells how far it has come")
        return
    _print_offsets(group["offsets"], names)
    print_further(group["offset_count"] - len(group["offsets"]), " partitions")


def _print_members(members: Sequence[Answer], names: Mapping[str, str]) -> None:
    session: Columns = {"SESSION LEFT": lambda row: seconds_of(row["session_left_ms"])}
    if members and all("session_timeout_ms" not in row and row["session_left_ms"] is None for row in members):
        session = {}  # Kafka's protocol does not say
    columns: Columns = {
        "MEMBER": lambda row: names[row["member_id"]],
        "CLIENT": lambda row: row["client"] or "-",
        "HOST": lambda row: row["host"] or "-",
        **session,
        "OWNS": lambda row: "?" if row["owned"] is None else _owned(row["owned"]),
        "WAITS FOR": "waits_for",
    }
    print_table(columns, members, "no members")


def _print_offsets(offsets: Sequence[Answer], names: Mapping[str, str]) -> None:
    columns: Columns = {
        "PARTITION": partition_of,
        "OFFSET": "offset",
        "END": "end_offset",
        "LAG": "lag",
        "MEMBER": lambda row: names.get(row["owner"], row["owner"]) or "-",
    }
    print_table(columns, offsets, "no committed offsets")


def _names(members: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return short names by member id: instance ids and beginnings of member ids; whole ids if those are not unique."""
    names = {row["member_id"]: printable(row["instance_id"] or _short(row["member_id"])) for row in members}
    return names if len(set(names.values())) == len(names) else {member_id: printable(member_id) for member_id in names}


def _short(member_id: str) -> str:
    return member_id if len(member_id) <= MEMBER_ID_CHARS else member_id[: MEMBER_ID_CHARS - 1] + "…"


def _owned(owned: Iterable[dict[str, Any]]) -> str:
    return " ".join(f"{row['topic']}:{_ranges(row['partitions'])}" for row in owned) or "nothing"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers with runs joined: 0-3,7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


ADDED: Final[dict[str, Add]] = {"groups": partial(add_reset, ResetOffsets, wire=by_wire("groups.reset_offsets"))}
BY_WIRE: Final[dict[str, Wire]] = {
    "groups list": by_wire("groups.list_groups"),
    "groups describe": by_wire("groups.describe"),
    "groups delete": by_wire("groups.delete"),
}
SHOWN: Final[dict[str, Show]] = {"groups list": _show_list, "groups describe": _show_group}
