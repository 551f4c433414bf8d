"""``purgatorio broker``: stop, kill, start, add, restart, pause, hold back and list brokers of a running cluster."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Show, add_command, print_further, print_table, says
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations import brokers

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

RESTART_SECONDS_PER_BROKER: Final = 70.0
"""Time limit of a rolling restart, per broker: 60 s to get in sync, and the time of its stop and start."""


def add(commands: Any) -> None:
    """Add the commands that no one operation is."""
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


def _show_connections(listed: Answer, args: argparse.Namespace) -> None:
    rows = [
        (
            row["broker"],
            row["listener"],
            row["peer"],
            printable(row["principal"]),
            printable(row["client"]) or "-",
            f"{row['age_ms'] / 1000:.1f} s",
            row["in_flight"] + row["waiting"],
            row["bytes_in"],
            row["bytes_out"],
        )
        for row in listed["connections"]
    ]
    print_table(
        ("BROKER", "LISTENER", "ADDRESS", "PRINCIPAL", "CLIENT", "SINCE", "REQUESTS", "BYTES-IN", "BYTES-OUT"), rows
    )
    print_further(listed["connection_count"] - len(rows))


def _show_brokers(listed: Answer, args: argparse.Namespace) -> None:
    rows = [
        (
            row["id"],
            _state(row),
            f"{row['host']}:{row['port']}" if row["port"] else "-",
            _number(row["broker_epoch"]),
            _lease(row),
            "yes" if row["controller"] else "",
        )
        for row in listed["brokers"]
    ]
    print_table(("BROKER", "STATE", "ADDRESS", "EPOCH", "LEASE", "CONTROLLER"), rows)


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


def _number(number: int) -> str:
    return "-" if number < 0 else str(number)


SHOWN: Final[dict[str, Show]] = {"list": _show_brokers, "connections": _show_connections}
