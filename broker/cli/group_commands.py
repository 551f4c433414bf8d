"""``purgatorio groups``: list, describe and delete consumer groups, reset offsets, move coordinators, end sessions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

MEMBER_ID_CHARS: Final = 24
"""Characters that a table shows of a member's id, which ends with a random part."""


def add_group_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    groups = add_group(commands, "groups", "list and describe consumer groups, reset their offsets, delete them")
    add_command(groups, "list", _list, "list the groups with their state, coordinator, members and lag")
    _add(groups, "describe", _describe, "show a group's members, what each owns, and the lag of each partition")
    reset = _add(groups, "reset-offsets", _reset, "commit offsets for a group that has no members")
    reset.add_argument("--topic", metavar="TOPIC", required=True, help="the topic whose offsets are reset")
    reset.add_argument("--partition", metavar="N", type=int, help="only this partition of the topic")
    reset.add_argument(
        "--to",
        metavar="WHERE",
        required=True,
        type=_target,
        help="earliest, latest, an offset, or a time such as 2026-11-21T20:15 or 2026-11-21T20:15:00Z",
    )
    _add(groups, "delete", _delete, "delete a group that has no members, with its offsets")
    move = _add(groups, "move-coordinator", _move, "move a group's coordinator, with all groups of its partition")
    move.add_argument("--to", metavar="BROKER", type=int, help="the broker (any other in-sync replica)")
    expire = _add(groups, "expire-member", _expire_member, "end a member's session now, as if it had fallen silent")
    expire.add_argument("--member", metavar="ID", help="its member id or client id (the only member)")


def _add(commands: Any, name: str, run: Any, summary: str) -> Any:
    parser = add_command(commands, name, run, summary)
    parser.add_argument("group", metavar="GROUP", help="the group's id")
    return parser


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


def _path(group_id: str) -> str:
    from urllib.parse import quote

    return f"groups/{quote(group_id, safe='')}"


# --- look ---


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    listed = admin.get("groups")
    rows = [
        (
            printable(row["id"]),
            row["state"],
            row["type"],
            row["member_count"],
            _or_dash(row["lag"]),
            row["coordinator"],
            printable(row["waits_for"]),
        )
        for row in listed["groups"]
    ]
    print_table(("GROUP", "STATE", "PROTOCOL", "MEMBERS", "LAG", "COORDINATOR", "WAITS FOR"), rows)
    further = listed["group_count"] - len(rows)
    if further > 0:
        print(f"and {further} more")
    if listed["loading_partition_count"]:
        print("some groups are being loaded by their coordinators, and are not listed yet")
    return 0


def _describe(admin: AdminClient, args: argparse.Namespace) -> int:
    group = admin.get(_path(args.group))
    epoch = f", {'generation' if group['type'] == 'classic' else 'epoch'} {group['epoch']}" if group["epoch"] else ""
    assignor = f", assignor {printable(group['assignor'])}" if group["assignor"] else ""
    about = f"{group['state']}{epoch}{assignor}, coordinator broker {group['coordinator']}"
    print(f"group {printable(group['id'])}: {about}")
    if group["waits_for"]:
        print(printable(group["waits_for"]))
    names = _names(group["members"])
    print()
    _print_members(group["members"], names)
    further = group["member_count"] - len(group["members"])
    if further > 0:
        print(f"and {further} more members")
    print()
    _print_offsets(group["offsets"], names)
    further = group["offset_count"] - len(group["offsets"])
    if further > 0:
        print(f"and {further} more partitions")
    return 0


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
            _or_dash(row["offset"]),
            _or_dash(row["end_offset"]),
            _or_dash(row["lag"]),
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


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)


# --- change ---


def _reset(admin: AdminClient, args: argparse.Namespace) -> int:
    body = {"topic": args.topic, **args.to}
    if args.partition is not None:
        body["partition"] = args.partition
    rows = [
        (f"{row['topic']}-{row['partition']}", _or_dash(row["before"]), row["after"])
        for row in admin.post(f"{_path(args.group)}/reset-offsets", body)["offsets"]
    ]
    print_table(("PARTITION", "BEFORE", "NOW"), rows)
    return 0


def _delete(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"{_path(args.group)}/delete")
    print(f"group {printable(args.group)} is deleted")
    return 0


def _move(admin: AdminClient, args: argparse.Namespace) -> int:
    moved = admin.post(f"{_path(args.group)}/move-coordinator", {} if args.to is None else {"to": args.to})
    print(f"broker {moved['coordinator']} is the coordinator of group {printable(args.group)}")
    return 0


def _expire_member(admin: AdminClient, args: argparse.Namespace) -> int:
    body = {} if args.member is None else {"member": args.member}
    expired = admin.post(f"{_path(args.group)}/expire-member", body)
    print(f"the session of member {printable(expired['member'])} of group {printable(args.group)} has ended")
    return 0
