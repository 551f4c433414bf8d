"""The commands that operate a running cluster: ``purgatorio broker`` and ``purgatorio topics``.

They send requests to the cluster's admin HTTP and import nothing else of the broker.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

DEFAULT_ADMIN_URL: Final = "http://127.0.0.1:9644"
ADMIN_VARIABLE: Final = "PURGATORIO_ADMIN"
RESTART_SECONDS_PER_BROKER: Final = 70.0
"""Time limit of a rolling restart, per broker: 60 s to get in sync, and the time of its stop and start."""

_EPILOG: Final = f"""\
The cluster is the one whose admin HTTP is at --admin or, without it, at the address in the environment variable
{ADMIN_VARIABLE}. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""

Command = Callable[["AdminClient", argparse.Namespace], int]


def add_commands(commands: Any) -> None:
    """Add both groups to the subcommands of a parser."""
    brokers = _add_group(commands, "broker", "stop, kill, start and list the brokers of a running cluster")
    _add_command(brokers, "list", _list_brokers, "list the brokers, running or not")
    stop = _add_broker_command(brokers, "stop", _stop, "stop a broker in good order; its logs are lost")
    stop.add_argument("--force", action="store_true", help="stop it even if it has the only copy of some records")
    _add_broker_command(
        brokers, "kill", _kill, "end a broker as a crash would; the others notice when its lease runs out"
    )
    _add_broker_command(
        brokers, "start", _start, "start a stopped broker; its logs are empty and it catches up with the leaders"
    )
    _add_command(brokers, "restart", _restart, "restart all brokers in turn; each waits until all replicas are in sync")

    topics = _add_group(commands, "topics", "list partitions with their leaders and replicas, and elect leaders")
    listing = _add_command(topics, "list", _list_topics, "list each partition's leader, replicas, ISR and ELR")
    listing.add_argument("--topic", metavar="TOPIC", help="only the partitions of this topic")
    elect = _add_command(
        topics,
        "elect",
        _elect,
        "make the preferred replicas leaders; with --unclean, elect leaders where there is none",
    )
    elect.add_argument("--topic", metavar="TOPIC", help="only the partitions of this topic")
    elect.add_argument("--partition", metavar="N", type=int, help="only this partition of the topic")
    elect.add_argument(
        "--unclean",
        action="store_true",
        help="elect any live replica where there is no leader; acknowledged records that it lacks are lost",
    )


def _add_group(commands: Any, name: str, summary: str) -> Any:
    parser = _add_parser(commands, name, summary)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _add_broker_command(commands: Any, name: str, run: Command, summary: str) -> Any:
    parser = _add_command(commands, name, run, summary)
    parser.add_argument("broker", metavar="N", type=int, help="the broker's id")
    return parser


def _add_command(commands: Any, name: str, run: Command, summary: str) -> Any:
    parser = _add_parser(commands, name, summary)
    parser.set_defaults(run=lambda args: _run(run, args))
    parser.add_argument("--admin", metavar="URL", help=f"the URL of the cluster's admin HTTP ({DEFAULT_ADMIN_URL})")
    return parser


def _add_parser(commands: Any, name: str, summary: str) -> Any:
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
        allow_abbrev=False,
    )


def _run(command: Command, args: argparse.Namespace) -> int:
    """Run a command; print one line if it fails."""
    from purgatorio.broker.cli.admin_client import AdminClient, AdminError, AdminUrlError

    try:
        return command(AdminClient(args.admin or os.environ.get(ADMIN_VARIABLE) or DEFAULT_ADMIN_URL), args)
    except AdminError as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 2 if isinstance(error, AdminUrlError) else 1
    except KeyError as error:
        print(f"purgatorio: the cluster's answer lacks {error}; it may run another version", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("purgatorio: stopped waiting; the cluster finishes the operation", file=sys.stderr)
        return 1


# --- brokers ---


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


def _restart(admin: AdminClient, args: argparse.Namespace) -> int:
    ids = [row["id"] for row in admin.get("brokers")["brokers"]]
    began = time.monotonic()
    print(f"restarting brokers {', '.join(map(str, ids))} in turn", flush=True)
    print("before each restart the cluster waits until all replicas are in sync, 60 s at most", flush=True)
    admin.post("brokers/restart", timeout_seconds=RESTART_SECONDS_PER_BROKER * (len(ids) + 1))
    print(f"all brokers were restarted and are in sync after {time.monotonic() - began:.1f} s")
    return 0


def _list_brokers(admin: AdminClient, args: argparse.Namespace) -> int:
    rows = [
        (
            row["id"],
            row["state"],
            f"{row['host']}:{row['port']}" if row["port"] else "-",
            _number(row["broker_epoch"]),
            _lease(row),
            "yes" if row["controller"] else "",
        )
        for row in admin.get("brokers")["brokers"]
    ]
    _print_table(("BROKER", "STATE", "ADDRESS", "EPOCH", "LEASE", "CONTROLLER"), rows)
    return 0


def _lease(row: dict[str, Any]) -> str:
    if row["fenced"]:
        return "run out (fenced)"
    if row["lease"]["held"]:
        return "held"
    return "not renewed" if row["registered"] else "-"


# --- topics ---


def _list_topics(admin: AdminClient, args: argparse.Namespace) -> int:
    listed = admin.get("topics" + _query(args.topic))
    partitions = listed["partitions"]
    if args.topic is not None and not partitions:
        print(f"purgatorio: there is no topic {args.topic}", file=sys.stderr)
        return 1
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            "offline" if row["offline"] else row["leader"],
            row["leader_epoch"],
            _ids(row["replicas"]),
            _ids(row["isr"]),
            _ids(row["elr"]),
            _reassignment(row["reassignment"]),
        )
        for row in partitions
    ]
    _print_table(("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "ELR", "REASSIGNED"), rows)
    further = listed["partition_count"] - len(partitions)
    if further > 0:
        print(f"and {further} more; --topic lists those of one topic")
    if listed["offline_count"]:
        print(f"{_partitions(listed['offline_count'])} offline: no live broker has all records")
        print("to elect leaders without the lost records: purgatorio topics elect --unclean")
    return 0


def _query(topic: str | None) -> str:
    from urllib.parse import urlencode

    return "" if topic is None else "?" + urlencode({"topic": topic})


def _reassignment(change: dict[str, list[int]] | None) -> str:
    if change is None:
        return ""
    return " ".join([f"+{id_}" for id_ in change["adding"]] + [f"-{id_}" for id_ in change["removing"]])


def _elect(admin: AdminClient, args: argparse.Namespace) -> int:
    wanted = {"topic": args.topic, "partition": args.partition, "unclean": args.unclean}
    body = {name: value for name, value in wanted.items() if value is not None}
    results = admin.post("topics/elect", body)["partitions"]
    refused = 0
    for row in results:
        name = f"{row['topic']}-{row['partition']}"
        if row["error"] == "NONE":
            print(f"{name}: broker {row['leader']} is the leader in epoch {row['leader_epoch']}")
        else:
            print(f"{name}: {row['error']}: {row['message']}")
            refused += row["error"] != "ELECTION_NOT_NEEDED"
    if not results:
        print("no partition needs an election")
    return 1 if refused else 0


# --- tables ---


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def _number(number: int) -> str:
    return "-" if number < 0 else str(number)


def _partitions(count: int) -> str:
    return "1 partition is" if count == 1 else f"{count} partitions are"


def _print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as their content, without the last ones if they are empty in all rows."""
    cells = [[str(cell) for cell in row] for row in rows]
    while len(head) > 1 and all(not row[len(head) - 1] for row in cells):
        head = head[:-1]
    table = [list(head), *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip())
