"""``purgatorio network``: cut the network between the brokers of a running cluster, and heal it."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, Final

from purgatorio.broker.cli.command import Answer, Show, add_command
from purgatorio.broker.cli.operation_commands import ask
from purgatorio.broker.operations.network import PartitionNetwork


def add(commands: Any) -> None:
    """Add the command whose groups are not given as in JSON."""
    partition = add_command(commands, "partition", partial(ask, PartitionNetwork), _show, PartitionNetwork.does())
    partition.add_argument(
        "groups", metavar="IDS", nargs="+", type=_ids, help="the brokers of a group, such as: 1 2,3 for two groups"
    )


def _ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of brokers like 2,3") from None


def _show(network: Answer, args: argparse.Namespace) -> None:
    groups = [",".join(map(str, group)) for group in network["groups"]]
    print(f"the network is cut between brokers {' | '.join(groups)}" if groups else "the network is whole")
    if network["paused"]:
        print(f"brokers that stand still: {','.join(map(str, network['paused']))}")


SHOWN: Final[dict[str, Show]] = {"show": _show, "heal": _show}
