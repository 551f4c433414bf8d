"""What an operator does to a running cluster, and why it may be refused."""

from purgatorio.broker.operator.clock_control import ClockControl
from purgatorio.broker.operator.cluster_control import (
    ClusterControl,
    Member,
    OperatedBroker,
    OperatedCluster,
    State,
)
from purgatorio.broker.operator.errors import ClusterUnavailable, NotInSync, NotThere, OperationRefused
from purgatorio.broker.operator.group_control import GroupBroker, GroupControl, Reset, Target
from purgatorio.broker.operator.hanging_transactions import Hanging, HangingTransactions
from purgatorio.broker.operator.restart import (
    RESTART_TIME_LIMIT_MS,
    Restartable,
    not_in_sync,
    rolling_restart,
    wait_until_in_sync,
)
from purgatorio.broker.operator.transaction_control import TransactionBroker, TransactionControl

__all__ = [
    "RESTART_TIME_LIMIT_MS",
    "ClockControl",
    "ClusterControl",
    "ClusterUnavailable",
    "GroupBroker",
    "GroupControl",
    "Hanging",
    "HangingTransactions",
    "Member",
    "NotInSync",
    "NotThere",
    "OperatedBroker",
    "OperatedCluster",
    "OperationRefused",
    "Reset",
    "Restartable",
    "State",
    "Target",
    "TransactionBroker",
    "TransactionControl",
    "not_in_sync",
    "rolling_restart",
    "wait_until_in_sync",
]
