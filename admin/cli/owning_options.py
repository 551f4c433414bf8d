"""The options of a cluster that a program owns, such as a test runner of any language, and of what it begins with."""

from __future__ import annotations

import argparse
from typing import Final

OWNING_OPTIONS: Final = (
    "print_json",
    "with_parent",
    "seed_topic",
    "import_folder",
    "data",
    "registry",
    "registry_port",
)
"""Where the parser keeps them. No setting has such a name."""


def add_owning_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a cluster that another program owns."""
    parser.add_argument(
        "--print-json",
        action="store_true",
        help="print one line of JSON when ready: bootstrap, admin_url, token, pid; the admin HTTP takes any free port",
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="stop in order when the standard input ends, as its owner does"
    )
    parser.add_argument(
        "--seed-topic",
        metavar="NAME:PARTITIONS",
        action="append",
        default=[],
        help="begin with this topic, e.g. orders:6; may be repeated",
    )
    parser.add_argument(
        "--import",
        metavar="DIR",
        dest="import_folder",
        help="begin with the topics and records of this folder, as JSON lines: orders.jsonl, topics.jsonl",
    )
    parser.add_argument(
        "--data", metavar="DIR", help="keep topics, records and groups here at the end, and begin with them"
    )
    parser.add_argument(
        "--registry",
        nargs="?",
        const="",
        metavar="NAME",
        help="run a schema registry beside it: karapace, apicurio, or the one that is installed (purgatorio registry)",
    )
    parser.add_argument(
        "--registry-port",
        type=int,
        metavar="PORT",
        help="the port of the schema registry; 0: any free port (8081; with --print-json any)",
    )


def wrong_with_processes(args: argparse.Namespace) -> str:
    """Return why options do not go with a process for each broker, or nothing if they do."""
    given = {"--seed-topic": args.seed_topic, "--import": args.import_folder, "--data": args.data}
    given["--registry"] = args.registry is not None
    for option, value in given.items():
        if value:
            return f"{option} needs all brokers in one process: leave --processes out"
    return ""
