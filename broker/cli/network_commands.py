"""``purgatorio network``: cut the network between the brokers of a running cluster, and heal it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from purgatorio.broker.cli.command import add_command, add_group

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient


def add_network_commands(commands: Any) -> None:
    """Add the group to the subcommands of a parser."""
    network = add_group(commands, "network", "cut the network between the brokers of a running cluster, and heal it")
    add_command(network, "show", _show, "show what is cut, and which brokers stand still")
    partition = add_command(
        network, "partition", _partition, "cut the network between groups of brokers; the largest keeps the metadata"
    )
    partition.add_argument(
        "groups", metavar="IDS", nargs="+", type=_ids, help="the brokers of a group, such as: 1 2,3 for two groups"
    )
    add_command(network, "heal", _heal, "end the partition: what was held on the way arrives")


def _ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of brokers like 2,3") from None


def _show(admin: AdminClient, args: argparse.Namespace) -> int:
    return _print(admin.get("network"))


def _partition(admin: AdminClient, args: argparse.Namespace) -> int:
    return _print(admin.post("network/partition", {"groups": args.groups}))


def _heal(admin: AdminClient, args: argparse.Namespace) -> int:
    return _print(admin.post("network/heal"))


def _print(network: dict[str, Any]) -> int:
    groups = [",".join(map(str, group)) for group in network["groups"]]
    print(f"the network is cut between brokers {' | '.join(groups)}" if groups else "the network is whole")
    if network["paused"]:
        print(f"brokers that stand still: {','.join(map(str, network['paused']))}")
    return 0
