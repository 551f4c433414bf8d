"""The groups of commands that operate a running cluster.

Most commands are declared by their operation (`purgatorio.admin.operations`). A group's module, such as
``broker_commands``, has what prints their answers as tables (``SHOWN``, by command), and adds commands whose words are
not those of one operation (``ADDED``, by group). ``BY_WIRE`` has what does a command by Kafka's protocol, for any
cluster. A group is filled when it is used: others do not wait for its module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.command import ADMIN_VARIABLE, add_group

if TYPE_CHECKING:
    from purgatorio.admin.operations.declare import Operation

__all__ = ["ADMIN_VARIABLE", "GROUPS", "add_commands"]

GROUPS: Final = {
    "broker": ("broker", "stop, kill, start, add, pause, hold back and list the brokers of a running cluster"),
    "topics": ("topic", "list, create, describe, alter and delete topics, elect leaders, move them"),
    "records": ("record", "produce records from lines, and consume them as lines"),
    "groups": ("group", "list and describe consumer groups with their lag, reset their offsets, delete them"),
    "configs": ("config", "describe and set the configs of topics, brokers and groups"),
    "tier": ("tier", "list, offload, hold and verify what a running cluster has in its object store"),
    "share-groups": (
        "share",
        "look at share groups, reset their offsets, delete them, let their acquisition locks run out",
    ),
    "txn": ("txn", "list, describe, abort and expire transactions, move their coordinators"),
    "fault": ("request", "have a running cluster fail, delay, hold or lose requests, by rule"),
    "clock": ("broker", "move, stop and show the time of a running cluster's brokers"),
    "network": ("broker", "cut the network between the brokers of a running cluster, and heal it"),
    "parked": ("request", "list what waits in a running cluster's purgatories, and expire it"),
    "quotas": ("access", "list, set and remove the quotas of users, client ids and IP addresses"),
    "snapshot": ("broker", "save what a running cluster has, and make it so again"),
    "users": ("access", "add, list and delete users that log in by SCRAM"),
    "acls": ("access", "add, list and remove access control lists"),
}
"""The groups by the first word of their commands: the beginning of the module's name, and what the group is for."""


def add_commands(commands: Any, more: Iterable[type[Operation]] = ()) -> None:
    """Add all groups to the subcommands of a parser.

    Args:
        more: operations beside those of the table.
    """
    for name, (_, summary) in GROUPS.items():
        add_group(commands, name, summary, partial(_fill, name, more))


def _fill(name: str, more: Iterable[type[Operation]], commands: Any) -> None:
    from purgatorio.admin.cli.operation_commands import add_operations
    from purgatorio.admin.operations.table import OPERATIONS

    module = importlib.import_module(f"purgatorio.admin.cli.{GROUPS[name][0]}_commands")
    add_operations(commands, name, [*OPERATIONS, *more], getattr(module, "SHOWN", {}), getattr(module, "BY_WIRE", {}))
    if name in (added := getattr(module, "ADDED", {})):
        added[name](commands)
