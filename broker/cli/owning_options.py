"""The options of a cluster that a program owns, such as a test runner of any language, and of what it begins with."""

from __future__ import annotations

import argparse
from typing import Final

OWNING_OPTIONS: Final = ("print_json", "with_parent", "seed_topic", "import_folder", "data")
"""Where the parser keeps them. No setting has such a name."""


def add_owning_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
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


def wrong_with_processes(args: argparse.Namespace) -> str:
    """Return why options do not go with a process for each broker, or nothing if they do."""
    for name, option in (("seed_topic", "--seed-topic"), ("import_folder", "--import"), ("data", "--data")):
        if getattr(args, name):
            return f"{option} needs all brokers in one process: leave --processes out"
    return ""
