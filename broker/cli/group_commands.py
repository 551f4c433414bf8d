"""``purgatorio groups``: list, describe and delete consumer groups, reset offsets, move coordinators, end sessions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Show, add_command, or_dash, print_further, print_table
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.groups import ResetOffsets

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

MEMBER_ID_CHARS: Final = 24
"""Characters that a table shows of a member's id, which ends with a random part."""


def add(commands: Any) -> None:
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
    rows = [
        (
            printable(row["id"]),
            row["state"],
            row["type"],
            row["member_count"],
            or_dash(row["lag"]),
            row["coordinator"],
            printable(row["waits_for"]),
        )
        for row in listed["groups"]
    ]
    print_table(("GROUP", "STATE", "PROTOCOL", "MEMBERS", "LAG", "COORDINATOR", "WAITS FOR"), rows)
    print_further(listed["group_count"] - len(rows))
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
    _print_offsets(group["offsets"], names)
    print_further(group["offset_count"] - len(group["offsets"]), " partitions")


def _print_members(members: Sequence[dict[str, Any]], names: Mapping[str, str]) -> None:
    if not members:
        print("no members")
        return
    rows = [
        (
            names[row["member_id"]],
            printable(row["client"]) or "-",
            row["host"] or "-",
            "-" if row["session_left_ms"] is None else f"{row['session_left_ms'] / 1000:.1f} s",
            "?" if row["owned"] is None else _owned(row["owned"]),
            printable(row["waits_for"]),
        )
        for row in members
    ]
    print_table(("MEMBER", "CLIENT", "HOST", "SESSION LEFT", "OWNS", "WAITS FOR"), rows)


def _print_offsets(offsets: Sequence[dict[str, Any]], names: Mapping[str, str]) -> None:
    if not offsets:
        print("no committed offsets")
        return
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            or_dash(row["offset"]),
            or_dash(row["end_offset"]),
            or_dash(row["lag"]),
            names.get(row["owner"], printable(row["owner"])) or "-",
        )
        for row in offsets
    ]
    print_table(("PARTITION", "OFFSET", "END", "LAG", "MEMBER"), rows)


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
    rows = [(f"{row['topic']}-{row['partition']}", or_dash(row["before"]), row["after"]) for row in answer["offsets"]]
    print_table(("PARTITION", "BEFORE", "NOW"), rows)


SHOWN: Final[dict[str, Show]] = {"list": _show_list, "describe": _show_group}
