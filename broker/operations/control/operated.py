"""A cluster as its operator sees it: that of `purgatorio.broker.cluster`, or in tests one without sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from purgatorio.broker.layers.faults import Faults
from purgatorio.broker.metrics.loop_lag import LoopLag
from purgatorio.broker.operations.control.network import Network, NetworkedCluster
from purgatorio.broker.time.clock import Clock, RunningClock
from purgatorio.broker.time.movable_clock import MemberClock

if TYPE_CHECKING:
    from purgatorio.broker.operations.control.leadership import Leadership
    from purgatorio.broker.operations.control.snapshots import Snapshot


class OperatedCluster(NetworkedCluster, Protocol):
    """The brokers of one process: each can be stopped, killed and started.

    Attributes:
        cluster_id: the id of the cluster, as clients are told it.
        clock: that of all brokers.
        loop_lag: how late this process's event loop is.
        lease_clock, session_clock, member_clock: the clocks of leases, of open transactions and of groups' members.
        network: lets brokers stand still, and cuts them off from each other.
        has_begun: whether the cluster has all that it was started with, or of its last reset or restore.
    """

    cluster_id: str
    clock: Clock
    loop_lag: LoopLag
    lease_clock: RunningClock
    session_clock: RunningClock
    member_clock: MemberClock
    faults: Faults
    network: Network
    leadership: Leadership
    has_begun: bool

    def snapshot(self) -> Snapshot:
        """What the cluster has now."""

    async def reset(self) -> None:
        """Make the cluster as it was after its start, with what it began with."""

    async def restore(self, snapshot: Snapshot) -> None:
        """Make the cluster as it was at a snapshot."""

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a running broker in good order."""

    async def kill_broker(self, broker_id: int) -> None:
        """End a running broker as a crash would."""

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker that is not running.

        Raises:
            OSError: its port is taken.
        """

    async def add_broker(self, rack: str | None) -> int:
        """Start one more broker; return its id.

        Raises:
            OperationRefused: a broker is being stopped or started, or there are as many as there may be.
            OSError: its port is taken.
        """
