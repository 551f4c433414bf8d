"""The groups of commands that operate a running cluster.

Most commands are declared by their operation (`purgatorio.broker.operations`); a group's module here has what prints
their answers as tables, and the commands whose words are not those of one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from purgatorio.broker.cli import (
    acl_commands,
    broker_commands,
    clock_commands,
    fault_commands,
    group_commands,
    network_commands,
    parked_commands,
    quota_commands,
    snapshot_commands,
    topic_commands,
    txn_commands,
    user_commands,
)
from purgatorio.broker.cli.command import ADMIN_VARIABLE, Show, add_group
from purgatorio.broker.cli.operation_commands import add_operations
from purgatorio.broker.operations.declare import Operation
from purgatorio.broker.operations.table import OPERATIONS

__all__ = ["ADMIN_VARIABLE", "add_commands"]

_NO_MORE: Final[Callable[[Any], None]] = lambda commands: None  # noqa: E731
_GROUPS: Final[tuple[tuple[str, str, Mapping[str, Show], Callable[[Any], None]], ...]] = (
    (
        "broker",
        "stop, kill, start, add, pause, hold back and list the brokers of a running cluster",
        broker_commands.SHOWN,
        broker_commands.add,
    ),
    (
        "topics",
        "list partitions with their leaders and replicas, elect leaders, move them",
        topic_commands.SHOWN,
        _NO_MORE,
    ),
    (
        "groups",
        "list and describe consumer groups, reset their offsets, delete them",
        group_commands.SHOWN,
        group_commands.add,
    ),
    (
        "txn",
        "list, describe, abort and expire transactions, move their coordinators",
        {},
        txn_commands.add,
    ),
    (
        "fault",
        "have a running cluster fail, delay, hold or lose requests, by rule",
        fault_commands.SHOWN,
        fault_commands.add,
    ),
    ("clock", "move, stop and show the time of a running cluster's brokers", clock_commands.SHOWN, _NO_MORE),
    (
        "network",
        "cut the network between the brokers of a running cluster, and heal it",
        network_commands.SHOWN,
        network_commands.add,
    ),
    ("parked", "list what waits in a running cluster's purgatories, and expire it", {}, parked_commands.add),
    (
        "quotas",
        "list, set and remove the quotas of users, client ids and IP addresses",
        quota_commands.SHOWN,
        quota_commands.add,
    ),
    ("snapshot", "save what a running cluster has, and make it so again", snapshot_commands.SHOWN, _NO_MORE),
    ("users", "add, list and delete users that log in by SCRAM", user_commands.SHOWN, user_commands.add),
    ("acls", "add, list and remove access control lists", {}, acl_commands.add),
)


def add_commands(commands: Any, operations: Iterable[type[Operation]] = OPERATIONS) -> None:
    """Add all groups to the subcommands of a parser; an operation in none of them gets a group of its own."""
    kinds = [each for each in operations if each.command]
    for name, summary, shown, add in _GROUPS:
        group = add_group(commands, name, summary)
        add_operations(group, name, kinds, shown)
        add(group)
    known = {name for name, *_ in _GROUPS}
    for name in dict.fromkeys(each.command.partition(" ")[0] for each in kinds):
        if name not in known:
            add_operations(add_group(commands, name, f"operate {name}"), name, kinds, {})
