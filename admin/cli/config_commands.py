"""``purgatorio configs``: describe and set the configs of topics, brokers and groups, by Kafka's protocol."""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatorio.admin.cli.command import (
    Add,
    Answer,
    Columns,
    pair,
    print_further,
    print_table,
)
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.wire_command import add_wire_command, by_wire

KINDS: Final = ("topic", "broker", "group")


def add_changes(parser: Any) -> None:
    """Add what is set and unset to a command's arguments."""
    parser.add_argument(
        "set", metavar="NAME=VALUE", nargs="*", default=(), type=pair, help="a config by Kafka's name, and its value"
    )
    parser.add_argument("--unset", metavar="NAME", action="append", help="a config that is as by default again")
    parser.set_defaults(check=_check_changes)


def _check_changes(args: argparse.Namespace) -> str:
    return "" if args.set or args.unset else "give NAME=VALUE, or --unset NAME"


def show_altered(answer: Answer, args: argparse.Namespace) -> None:
    """Print what was changed."""
    about = f"{answer['kind']} {printable(answer['name'])}" if answer["name"] else "all brokers"
    for name, value in answer["set"].items():
        print(f"{about}: {printable(name)} is {printable(value)}")
    for name in answer["unset"]:
        print(f"{about}: {printable(name)} is as by default")


def _show_configs(answer: Answer, args: argparse.Namespace) -> None:
    shown = [each for each in answer["configs"] if args.all or not each["is_default"]]
    columns: Columns = {
        "CONFIG": "name",
        "VALUE": lambda row: "(hidden)" if row["sensitive"] else row["value"],
        "FROM": "source",
    }
    about = f"{answer['kind']} {printable(answer['name'])}"
    print_table(columns, shown, f"{about} has no configs of its own")
    print_further(len(answer["configs"]) - len(shown), " as by default or in the broker's file; --all shows them")


def _add(commands: Any) -> None:
    describe = add_wire_command(
        commands, "describe", by_wire("configs.describe"), _show_configs, "the configs of a topic, broker or group"
    )
    _add_resource(describe)
    describe.add_argument("--all", action="store_true", help="those that are as by default, too")
    change = add_wire_command(
        commands, "set", by_wire("configs.alter"), show_altered, "set and unset configs of a topic, broker or group"
    )
    _add_resource(change)
    add_changes(change)


def _add_resource(parser: Any) -> None:
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=" or ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help='the topic, the broker\'s id ("": all brokers), or the group')


ADDED: Final[dict[str, Add]] = {"configs": _add}
