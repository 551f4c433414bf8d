"""The commands that operate a running cluster: ``purgatorio broker`` and ``purgatorio topics``.

They talk to its admin HTTP and need nothing else of the broker.
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
"""How long a rolling restart is waited for: the 60 s that the cluster gives each broker, and its stop and start."""

_EPILOG: Final = f"""\
The cluster is the one whose admin HTTP is at --admin or, without it, at the address in the environment variable
{ADMIN_VARIABLE}. Exit codes: 0 done, 1 refused or failed, 2 called wrongly.
"""

Command = Callable[["AdminClient", argparse.Namespace], int]


def add_commands(commands: Any) -> None:
    """Add both groups to a parser's subcommands."""
    brokers = _add_group(commands, "broker", "stop, kill, start and list the brokers of a running cluster")
    _add_command(brokers, "list", _list_brokers, "list the brokers, running or not")
    stop = _add_broker_command(brokers, "stop", _stop, "stop a broker in good order; its records are gone with it")
    stop.add_argument(
        "--force", action="store_true", help="even if it has the only copy of some records, which are lost then"
    )
    _add_broker_command(brokers, "kill", _kill, "end a broker at once, as a crash would; nobody is told, or asked")
    _add_broker_command(
        brokers, "start", _start, "start a broker that does not run; it comes back empty and catches up"
    )
    _add_command(brokers, "restart", _restart, "restart all brokers in turn, each when all replicas are in sync again")

    topics = _add_group(commands, "topics", "list who leads and holds partitions, and elect leaders")
    listing = _add_command(topics, "list", _list_topics, "list each partition's leader, replicas, ISR and ELR")
    listing.add_argument("--topic", metavar="TOPIC", help="only this topic's")
    elect = _add_command(topics, "elect", _elect, "elect the preferred leaders, or leaders where there are none")
    elect.add_argument("--topic", metavar="TOPIC", help="only this topic's partitions")
    elect.add_argument("--partition", metavar="N", type=int, help="only this partition of the topic")
    elect.add_argument(
        "--unclean",
        action="store_true",
        help="where there is no leader, let any live replica lead; acknowledged records that it lacks are lost",
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
    parser.add_argument("--admin", metavar="URL", help=f"where the cluster's admin HTTP is ({DEFAULT_ADMIN_URL})")
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
    """Run a command, and say in one line what it failed of."""
    from purgatorio.broker.cli.admin_client import AdminClient, AdminError, AdminUrlError

    try:
        return command(AdminClient(args.admin or os.environ.get(ADMIN_VARIABLE) or DEFAULT_ADMIN_URL), args)
    except AdminError as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 2 if isinstance(error, AdminUrlError) else 1
    except KeyError as error:
        print(f"purgatorio: the cluster's answer lacks {error}: it may be of another version", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("purgatorio: not waited for; what was begun goes on in the cluster", file=sys.stderr)
        return 1


# --- brokers ---


def _stop(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/stop", {"force": args.force})
    print(f"broker {args.broker} is stopped")
    return 0


def _kill(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/kill")
    print(f"broker {args.broker} is dead; the others find out when its session ends")
    return 0


def _start(admin: AdminClient, args: argparse.Namespace) -> int:
    admin.post(f"brokers/{args.broker}/start")
    print(f"broker {args.broker} is running, and catches up")
    return 0


def _restart(admin: AdminClient, args: argparse.Namespace) -> int:
    ids = [row["id"] for row in admin.get("brokers")["brokers"]]
    began = time.monotonic()
    print(f"restarting brokers {', '.join(map(str, ids))} in turn", flush=True)
    print("after each the cluster waits until all replicas are in sync, 60 s at most", flush=True)
    admin.post("brokers/restart", timeout_seconds=RESTART_SECONDS_PER_BROKER * (len(ids) + 1))
    print(f"all brokers are restarted and in sync, after {time.monotonic() - began:.1f} s")
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
        print(f"and {further} more; choose with --topic")
    if listed["offline_count"]:
        print(f"{_partitions(listed['offline_count'])} offline: no broker lives that has all records")
        print("to go on without what is lost: purgatorio topics elect --unclean")
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
            print(f"{name}: broker {row['leader']} leads, in epoch {row['leader_epoch']}")
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
    """Columns as wide as what stands in them; the ones at the end that are empty in every row are left out."""
    cells = [[str(cell) for cell in row] for row in rows]
    while len(head) > 1 and all(not row[len(head) - 1] for row in cells):
        head = head[:-1]
    table = [list(head), *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip())
