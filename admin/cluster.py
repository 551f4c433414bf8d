"""Several brokers in one process, and the admin HTTP that shows and changes them: the public `purgatorio.Cluster`."""

from __future__ import annotations

from purgatorio.admin.web.server import AdminServer
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.node.member import ProcessMember
from purgatorio.broker.time.garbage import GarbageTuning
from purgatorio.purgatory.clock import Clock


class Cluster(BrokerCluster):
    """Brokers that run together, with their admin HTTP; an asynchronous context manager.

    Args:
        config: the number of brokers, their addresses and their configs.
        clock: the source of time; by default the machine's. With a `ManualClock` time passes when you advance it.
        seed: seeds the random choices (topic ids, replica assignments, jitter of retries); None: they differ each time.
        admin: whether `start` starts the admin HTTP; otherwise `start_admin` does.
        garbage: sets Python's garbage collector from `start` to `stop`, for the whole process; None leaves it as it is.
        member: makes one of the brokers part of a cluster of several processes; None: all brokers are in this one.
        cluster_id: the id of the cluster; None: a new one.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock | None = None,
        *,
        seed: int | None = None,
        admin: bool = True,
        garbage: GarbageTuning | None = None,
        member: ProcessMember | None = None,
        cluster_id: str | None = None,
    ) -> None:
        super().__init__(config, clock, seed=seed, garbage=garbage, member=member, cluster_id=cluster_id)
        self._starts_admin = admin
        self.admin = AdminServer(
            self,
            metrics_per_partition=config.metrics_per_partition,
            token=config.admin_token,
            read_token=config.admin_read_token,
            open_to_all=config.admin_auth == "none",
        )

    @property
    def admin_url(self) -> str:
        """The URL of the admin HTTP server and its page.

        Raises:
            RuntimeError: it was not started.
        """
        return self.admin.url

    @property
    def page_url(self) -> str:
        """The URL that opens the page in a browser, with the token if the server made one. Raises as `admin_url`."""
        return self.admin.page_url

    async def start(self) -> None:
        """Start all brokers, and the admin HTTP server unless it is to start later.

        Returns when they answer clients, with all that `beginning` has. If it raises, all of it is stopped again.

        Raises:
            OSError: a port is in use, or a host is not an address of this machine.
        """
        await super().start()

    async def _answering(self) -> None:
        if self._starts_admin:
            await self.start_admin()

    async def start_admin(self) -> None:
        """Start the admin HTTP server.

        Raises:
            OSError: its address cannot be listened on.
            RuntimeError: it is running.
        """
        await self.admin.start(*self.config.admin_address)

    async def stop(self) -> None:
        """Stop the admin HTTP server and all brokers; no task, socket or parked operation is left.

        Raises:
            BaseExceptionGroup: the exceptions of brokers that failed while they ran; all others are stopped first.
        """
        await self.admin.stop()
        await super().stop()
