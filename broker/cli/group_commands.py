"""``purgatorio groups``: list, describe and delete groups, reset offsets, move coordinators, end sessions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import (
    Add,
    Answer,
    Columns,
    Show,
    add_command,
    partition_of,
    print_further,
    print_table,
    seconds_of,
)
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.groups import ResetOffsets

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

MEMBER_ID_CHARS: Final = 24
"""Characters that a table shows of a member's id, which ends with a random part."""


def _add(commands: Any) -> None:
    """Add the command whose target is one word here, and one of three fields in JSON."""
    reset = add_command(commands, "reset-offsets", _reset, _show_reset, ResetOffsets.does())
    reset.add_argument("id", metavar="GROUP", help="the group's id")
    reset.add_argument("--topic", metavar="TOPIC", required=True, help="the topic whose offsets are reset")
    reset.add_argument("--partition", metavar="N", type=int, help="only this partition of the topic")
    reset.add_argument(
        "--to",
        metavar="WHERE",
        required=True,
        type=_target,
        help="earliest, latest, an offset, or a time such as 2026-11-21T20:15 or 2026-11-21T20:15:00Z",
    )


def _target(text: str) -> dict[str, str | int]:
    """Return where offsets are reset to, as the admin HTTP takes it; a time without a zone is local."""
    if text in ("earliest", "latest"):
        return {"to": text}
    if text.isascii() and text.isdecimal():
        return {"offset": int(text)}
    from datetime import datetime

    try:
        return {"timestamp_ms": max(0, round(datetime.fromisoformat(text).timestamp() * 1000))}
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is not earliest, latest, an offset or a time") from None


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
    columns: Columns = {
        "MEMBER": lambda row: names[row["member_id"]],
        "CLIENT": lambda row: row["client"] or "-",
        "HOST": lambda row: row["host"] or "-",
        "SESSION LEFT": lambda row: seconds_of(row["session_left_ms"]),
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


def _reset(admin: AdminClient, args: argparse.Namespace) -> Answer:
    given = {"id": args.id, "topic": args.topic, **args.to}
    if args.partition is not None:
        given["partition"] = args.partition
    return send(ResetOffsets, admin, given)


def _show_reset(answer: Answer, args: argparse.Namespace) -> None:
    print_table({"PARTITION": partition_of, "BEFORE": "before", "NOW": "after"}, answer["offsets"])


ADDED: Final[dict[str, Add]] = {"groups": _add}
SHOWN: Final[dict[str, Show]] = {"groups list": _show_list, "groups describe": _show_group}
