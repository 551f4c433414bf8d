"""The groups of commands that operate a running cluster: ``purgatorio broker``, ``topics``, ``groups``, ``txn``,
``fault``, ``clock``, ``network``, ``parked``, ``quotas``, ``snapshot``, ``users``, ``acls``."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.cli.acl_commands import add_acl_commands
from purgatorio.broker.cli.broker_commands import add_broker_commands
from purgatorio.broker.cli.clock_commands import add_clock_commands
from purgatorio.broker.cli.command import ADMIN_VARIABLE
from purgatorio.broker.cli.fault_commands import add_fault_commands
from purgatorio.broker.cli.group_commands import add_group_commands
from purgatorio.broker.cli.network_commands import add_network_commands
from purgatorio.broker.cli.parked_commands import add_parked_commands
from purgatorio.broker.cli.quota_commands import add_quota_commands
from purgatorio.broker.cli.snapshot_commands import add_snapshot_commands
from purgatorio.broker.cli.topic_commands import add_topic_commands
from purgatorio.broker.cli.txn_commands import add_txn_commands
from purgatorio.broker.cli.user_commands import add_user_commands

__all__ = ["ADMIN_VARIABLE", "add_commands"]


def add_commands(commands: Any) -> None:
    """Add all groups to the subcommands of a parser."""
    add_broker_commands(commands)
    add_topic_commands(commands)
    add_group_commands(commands)
    add_txn_commands(commands)
    add_fault_commands(commands)
    add_clock_commands(commands)
    add_network_commands(commands)
    add_parked_commands(commands)
    add_quota_commands(commands)
    add_snapshot_commands(commands)
    add_user_commands(commands)
    add_acl_commands(commands)
