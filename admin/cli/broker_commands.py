"""``purgatorio broker``, ``clock``, ``network`` and ``snapshot``: the brokers of a running cluster as a whole."""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    Show,
    add_command,
    print_further,
    print_table,
    says,
    seconds_of,
    table,
)
from purgatorio.admin.cli.operation_commands import ask, send
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.operations import brokers
from purgatorio.admin.operations.network import PartitionNetwork
from purgatorio.broker.causes.words import and_more

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient

ENDED_LINES: Final = 20
"""Lines about the operations that a move of the clock ended, each of one purgatory and client."""
RESTART_SECONDS_PER_BROKER: Final = 70.0
"""Time limit of a rolling restart, per broker: 60 s to get in sync, and the time of its stop and start."""


def _add_to_broker(commands: Any) -> None:
    """Add the commands that consist of several operations."""
    add_command(
        commands,
        "restart",
        _restart,
        says("all brokers were restarted and are in sync after {took_seconds:.1f} s"),
        brokers.RestartBrokers.does(),
    )
    resume = add_command(commands, "resume", _resume, says("{who}"), "let a paused broker, or all of them, go on")
    hold = add_command(
        commands,
        "hold-follower",
        _hold_follower,
        says("broker {id} sends no fetch to leaders"),
        "let a broker send no fetch to leaders: acks=all waits for it",
    )
    hold.add_argument("id", metavar="N", type=int, help="the broker's id")
    release = add_command(
        commands, "release", _release, says("{who}"), "let a held follower, or all of them, fetch again"
    )
    for parser in (resume, release):
        parser.add_argument("id", metavar="N", type=int, nargs="?", help="the broker's id; all if it is not given")


def _resume(admin: AdminClient, args: argparse.Namespace) -> Answer:
    args.who = "all brokers go on" if args.id is None else f"broker {args.id} goes on"
    return (
        send(brokers.ResumeBrokers, admin, {})
        if args.id is None
        else send(brokers.ResumeBroker, admin, {"id": args.id})
    )


def _hold_follower(admin: AdminClient, args: argparse.Namespace) -> Answer:
    return send(brokers.ChangeFollower, admin, {"id": args.id, "held": True})


def _release(admin: AdminClient, args: argparse.Namespace) -> Answer:
    args.who = "all followers fetch again" if args.id is None else f"broker {args.id} fetches again"
    rows = send(brokers.ListBrokers, admin, {})["brokers"]
    released = [row["id"] for row in rows if row["state"] == "running"] if args.id is None else [args.id]
    return {"brokers": [send(brokers.ChangeFollower, admin, {"id": each, "held": False}) for each in released]}


def _restart(admin: AdminClient, args: argparse.Namespace) -> Answer:
    ids = [row["id"] for row in send(brokers.ListBrokers, admin, {})["brokers"]]
    began = time.monotonic()
    if not args.json:
        print(f"restarting brokers {', '.join(map(str, ids))} in turn", flush=True)
        print("before each restart the cluster waits until all replicas are in sync, 60 s at most", flush=True)
    answer = admin.post("brokers/restart", timeout_seconds=RESTART_SECONDS_PER_BROKER * (len(ids) + 1))
    return {**answer, "took_seconds": time.monotonic() - began}


def _state(row: dict[str, Any]) -> str:
    words = [
        "paused" if row["paused"] else "",
        f"its process {trouble}" if (trouble := row.get("process", {}).get("trouble")) else "",
        f"cut off from {','.join(map(str, row['cut_off_from']))}" if row["cut_off_from"] else "",
    ]
    return f"{row['state']} ({', '.join(filter(None, words))})" if any(words) else str(row["state"])


def _lease(row: dict[str, Any]) -> str:
    if row["fenced"]:
        return "run out (fenced)"
    if row["lease"]["held"]:
        return "held"
    return "not renewed" if row["registered"] else "-"


def _memory(row: dict[str, Any]) -> str:
    memory = row.get("memory")
    if not memory:
        return "-"
    used_bytes = memory["logs_bytes"] + memory["requests_bytes"] + memory["answers_bytes"]
    return f"{math.ceil(used_bytes / 1e6)} of {math.ceil(memory['limit_bytes'] / 1e6)} MB"


# --- clock ---


def _show_advance(moved: Answer, args: argparse.Namespace) -> None:
    print(f"the brokers' clock moved {args.seconds:g} s")
    if not moved["ended"]:
        return
    alike: dict[tuple[str, str], list[Answer]] = {}
    for row in moved["ended"]:
        alike.setdefault((row["purgatory"], row["client"]), []).append(row)
    groups = sorted(alike.values(), key=len, reverse=True)
    print_table(_ENDED, groups[:ENDED_LINES])
    print_further(moved["ended_count"] - sum(map(len, groups[:ENDED_LINES])))


def _brokers_of(rows: list[Answer]) -> str:
    return ",".join(map(str, sorted({row["broker"] for row in rows})))


def _longest(rows: list[Answer]) -> int:
    return max(int(row["waited_ms"]) for row in rows)


def _missing_of(rows: list[Answer]) -> str:
    """Return what the last one still missed, and how many other things some of them missed."""
    others = len({row["missing"] for row in rows}) - 1
    return f"{rows[-1]['missing']}{and_more(others)}"


_ENDED: Final[Columns] = {
    "ENDED": len,
    "PURGATORY": lambda rows: rows[0]["purgatory"],
    "CLIENT": lambda rows: rows[0]["client"],
    "BROKERS": _brokers_of,
    "WAITED-MS": _longest,
    "MISSING": _missing_of,
}
"""Of operations of one purgatory and client: `waited_ms` is that of the one that waited longest."""


def _show_time(clock: Any, args: argparse.Namespace) -> None:
    from datetime import UTC, datetime

    try:
        shown = datetime.fromtimestamp(clock["wall_ms"] / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):  # beyond the year 9999
        shown = f"{clock['wall_ms']} ms since 1970"
    print(shown + (", and stands still" if clock["frozen"] else ""))


# --- network ---


def _add_to_network(commands: Any) -> None:
    """Add the command whose groups are not given as in JSON."""
    partition = add_command(
        commands, "partition", partial(ask, PartitionNetwork), _show_network, PartitionNetwork.does()
    )
    partition.add_argument(
        "groups", metavar="IDS", nargs="+", type=_ids, help="the brokers of a group, such as: 1 2,3 for two groups"
    )


def _ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of brokers like 2,3") from None


def _show_network(network: Answer, args: argparse.Namespace) -> None:
    groups = [",".join(map(str, group)) for group in network["groups"]]
    print(f"the network is cut between brokers {' | '.join(groups)}" if groups else "the network is whole")
    if network["paused"]:
        print(f"brokers that stand still: {','.join(map(str, network['paused']))}")


# --- snapshots ---


def _show_taken(taken: Answer, args: argparse.Namespace) -> None:
    print(f"snapshot {printable(taken['name'])} has {_content(taken)}")


def _show_restored(restored: Answer, args: argparse.Namespace) -> None:
    print(f"the cluster is as it was at snapshot {printable(args.name)}, with {_content(restored)}")


def _content(snapshot: dict[str, Any]) -> str:
    topics = snapshot["topic_count"]
    return f"{topics} {'topic' if topics == 1 else 'topics'}, {snapshot['size_bytes']} bytes"


_CONNECTIONS: Final[Columns] = {
    "BROKER": "broker",
    "LISTENER": "listener",
    "ADDRESS": "peer",
    "PRINCIPAL": "principal",
    "CLIENT": lambda row: row["client"] or "-",
    "SINCE": lambda row: seconds_of(row["age_ms"]),
    "REQUESTS": lambda row: row["in_flight"] + row["waiting"],
    "BYTES-IN": "bytes_in",
    "BYTES-OUT": "bytes_out",
}
_BROKERS: Final[Columns] = {
    "BROKER": "id",
    "STATE": _state,
    "ADDRESS": lambda row: f"{row['host']}:{row['port']}" if row["port"] else "-",
    "EPOCH": lambda row: "-" if row["broker_epoch"] < 0 else row["broker_epoch"],
    "LEASE": _lease,
    "MEMORY": _memory,
    "CONTROLLER": lambda row: "yes" if row["controller"] else "",
}
_SNAPSHOTS: Final[Columns] = {
    "SNAPSHOT": "name",
    "TOPICS": "topic_count",
    "BYTES": "size_bytes",
    "NAMES": lambda row: " ".join(row["topics"]),
}
ADDED: Final[dict[str, Add]] = {"broker": _add_to_broker, "network": _add_to_network}
SHOWN: Final[dict[str, Show]] = {
    "broker list": table("brokers", _BROKERS),
    "broker connections": table("connections", _CONNECTIONS, count="connection_count"),
    "clock show": _show_time,
    "clock advance": _show_advance,
    "clock freeze": _show_time,
    "clock unfreeze": _show_time,
    "network show": _show_network,
    "network heal": _show_network,
    "snapshot take": _show_taken,
    "snapshot list": table("snapshots", _SNAPSHOTS, "there are no snapshots"),
    "snapshot restore": _show_restored,
}
