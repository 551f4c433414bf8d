"""``purgatorio broker``: stop, kill, start, add, restart, pause, hold back and list brokers of a running cluster."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Command, add_command, add_group, print_table
from purgatorio.broker.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

RESTART_SECONDS_PER_BROKER: Final = 70.0
"""Time limit of a rolling restart, per broker: 60 s to get in sync, and the time of its stop and start."""


def add_broker_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    brokers = add_group(
        commands, "broker", "stop, kill, start, add, pause, hold back and list the brokers of a running cluster"
    )
    add_command(brokers, "list", _list_brokers, "list the brokers, running or not")
    add_command(brokers, "connections", _connections, "list connections: who is behind each, and what it has sent")
    stop = _add_broker_command(brokers, "stop", _stop, "stop a broker in good order; its logs are lost")
    stop.add_argument("--force", action="store_true", help="stop it even if it has the only copy of some records")
    _add_broker_command(
        brokers, "kill", _kill, "end a broker as a crash would; the others notice when its lease runs out"
    )
    _add_broker_command(
        brokers, "start", _start, "start a stopped broker; its logs are empty and it catches up with the leaders"
    )
    add = add_command(brokers, "add", _add, "start one more broker, until the cluster is reset or stopped")
    add.add_argument("--rack", help="its rack; the next one of the setting racks if it is not given")
    add_command(brokers, "restart", _restart, "restart all brokers in turn; each waits until all replicas are in sync")
    _add_broker_command(
        brokers, "pause", _pause, "let a broker stand still, as SIGSTOP does; its connections stay open"
    )
    resume = add_command(brokers, "resume", _resume, "let a paused broker, or all of them, go on")
    resume.add_argument("broker", metavar="N", type=int, nargs="?", help="the broker's id; all if it is not given")
    _add_broker_command(
        brokers, "hold-follower", _hold_follower, "let a broker send no fetch to leaders: acks=all waits for it"
    )
    release = add_command(brokers, "release", _release, "let a held follower, or all of them, fetch again")
    release.add_argument("broker", metavar="N", type=int, nargs="?", help="the broker's id; all if it is not given")


def _add_broker_command(commands: Any, name: str, run: Command, summary: str) -> Any:
    parser = add_command(commands, name, run, summary)
    parser.add_argument("broker", metavar="N", type=int, help="the broker's id")
    return parser


def _stop(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/stop", {"force": args.force})
    print(f"broker {args.broker} is stopped")
    return 0


def _kill(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/kill")
    print(f"broker {args.broker} was killed; the others notice when its lease runs out")
    return 0


def _start(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/start")
    print(f"broker {args.broker} is running and catches up with the leaders")
    return 0


def _add(admin: AdminClient, args: argparse.Namespace) -> int:
    added = admin.post("brokers", {"rack": args.rack})
    print(f"broker {added['broker']} is running; new topics may have replicas there")
    return 0


def _pause(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/pause")
    print(f"broker {args.broker} stands still; the others notice when its lease runs out")
    return 0


def _resume(admin: AdminClient, args: argparse.Namespace) -> int:
    if args.broker is None:
        admin.post("brokers/resume")
        print("all brokers go on")
    else:
        admin.post(f"brokers/{args.broker}/resume")
        print(f"broker {args.broker} goes on")
    return 0


def _hold_follower(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/follower", {"held": True})
    print(f"broker {args.broker} sends no fetch to leaders")
    return 0


def _release(admin: AdminClient, args: argparse.Namespace) -> int:
    running = [row["id"] for row in admin.get("brokers")["brokers"] if row["state"] == "running"]
    for broker in running if args.broker is None else [args.broker]:
        admin.post(f"brokers/{broker}/follower", {"held": False})
    print("all followers fetch again" if args.broker is None else f"broker {args.broker} fetches again")
    return 0


def _restart(admin: AdminClient, args: argparse.Namespace) -> int:
    ids = [row["id"] for row in admin.get("brokers")["brokers"]]
    began = time.monotonic()
    print(f"restarting brokers {', '.join(map(str, ids))} in turn", flush=True)
    print("before each restart the cluster waits until all replicas are in sync, 60 s at most", flush=True)
    admin.post("brokers/restart", timeout_seconds=RESTART_SECONDS_PER_BROKER * (len(ids) + 1))
    print(f"all brokers were restarted and are in sync after {time.monotonic() - began:.1f} s")
    return 0


def _connections(admin: AdminClient, args: argparse.Namespace) -> int:
    listed = admin.get("connections")
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
    further = listed["connection_count"] - len(rows)
    if further > 0:
        print(f"and {further} more")
    return 0


def _list_brokers(admin: AdminClient, args: argparse.Namespace) -> int:
    rows = [
        (
            row["id"],
            _state(row),
            f"{row['host']}:{row['port']}" if row["port"] else "-",
            _number(row["broker_epoch"]),
            _lease(row),
            "yes" if row["controller"] else "",
        )
        for row in admin.get("brokers")["brokers"]
    ]
    print_table(("BROKER", "STATE", "ADDRESS", "EPOCH", "LEASE", "CONTROLLER"), rows)
    return 0


def _state(row: dict[str, Any]) -> str:
    words = [
        "paused" if row["paused"] else "",
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
