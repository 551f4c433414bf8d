"""What an operator does to a running cluster, and why it may be refused."""

from purgatorio.broker.operator.cluster_control import (
    ClusterControl,
    Member,
    OperatedBroker,
    OperatedCluster,
    State,
)
from purgatorio.broker.operator.errors import ClusterUnavailable, NotInSync, NotThere, OperationRefused
from purgatorio.broker.operator.group_control import GroupBroker, GroupControl, Reset, Target
from purgatorio.broker.operator.restart import (
    RESTART_TIME_LIMIT_MS,
    Restartable,
    not_in_sync,
    rolling_restart,
    wait_until_in_sync,
)

__all__ = [
    "RESTART_TIME_LIMIT_MS",
    "ClusterControl",
    "ClusterUnavailable",
    "GroupBroker",
    "GroupControl",
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
    "not_in_sync",
    "rolling_restart",
    "wait_until_in_sync",
]
