"""What an operator does to a running cluster, and why it may be refused."""

from purgatorio.broker.operations.control.clock_control import ClockControl
from purgatorio.broker.operations.control.cluster_control import ClusterControl, Member, State
from purgatorio.broker.operations.control.group_control import GroupControl, Reset, Target
from purgatorio.broker.operations.control.hanging_transactions import Hanging, HangingTransactions
from purgatorio.broker.operations.control.operated import OperatedCluster
from purgatorio.broker.operations.control.restart import (
    RESTART_TIME_LIMIT_MS,
    Restartable,
    not_in_sync,
    rolling_restart,
    wait_until_in_sync,
)
from purgatorio.broker.operations.control.transaction_control import TransactionControl
from purgatorio.broker.operations.errors import ClusterUnavailable, NotInSync, NotThere, OperationRefused

__all__ = [
    "RESTART_TIME_LIMIT_MS",
    "ClockControl",
    "ClusterControl",
    "ClusterUnavailable",
    "GroupControl",
    "Hanging",
    "HangingTransactions",
    "Member",
    "NotInSync",
    "NotThere",
    "OperatedCluster",
    "OperationRefused",
    "Reset",
    "Restartable",
    "State",
    "Target",
    "TransactionControl",
    "not_in_sync",
    "rolling_restart",
    "wait_until_in_sync",
]
