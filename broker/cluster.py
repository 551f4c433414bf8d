"""Several brokers in one process, and the admin HTTP that shows them.

The brokers share nothing but the metadata store and the event loop: they talk to each other over TCP.
"""

from __future__ import annotations

import asyncio
import base64
import random
from types import TracebackType

from broker.broker import Broker
from broker.clock import Clock, SystemClock
from broker.config import ClusterConfig
from broker.metadata.embedded import EmbeddedStore
from broker.web.server import AdminServer


class Cluster:
    """Brokers that run together; an asynchronous context manager.

    Args:
        config: how many, where, and how they are set.
        clock: where all of them take their time from.
        seed: makes the cluster's chance (topic ids, placement, spread of retries) the same every time; None: not.
    """

    def __init__(self, config: ClusterConfig, clock: Clock | None = None, *, seed: int | None = None) -> None:
        self.config = config
        self.clock = clock if clock is not None else SystemClock()
        rng = random.Random(seed)
        self.cluster_id = base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")
        self.truth = EmbeddedStore(self.cluster_id, lambda callback: asyncio.get_running_loop().call_soon(callback))
        self.brokers = [
            Broker(broker_config, self.truth.open(), clock=self.clock, rng=random.Random(rng.random()))
            for broker_config in config.broker_configs()
        ]
        self.admin = AdminServer(self)

    @property
    def addresses(self) -> list[tuple[int, str, int]]:
        """Each broker's id, host and port, as clients are told them."""
        return [(broker.broker_id, *broker.address) for broker in self.brokers]

    @property
    def bootstrap(self) -> str:
        """What a client is given to begin with: `host:port,host:port,…`."""
        return ",".join(f"{host}:{port}" for _, host, port in self.addresses)

    @property
    def admin_url(self) -> str:
        """Where the page is."""
        return self.admin.url

    async def start(self) -> None:
        """Start all brokers and the admin HTTP; returns when clients are answered.

        Raises:
            OSError: a port is taken or an address is none of this machine's; whatever was started is stopped again.
        """
        try:
            for broker in self.brokers:
                await broker.start()
            await self.admin.start(*self.config.admin_address)
        except BaseException:
            await self.stop()
            raise

    async def failed(self) -> None:
        """Wait until a broker dies of a broken invariant while it runs, and raise what it died of."""
        async with asyncio.TaskGroup() as watched:
            for broker in self.brokers:
                watched.create_task(broker.failed())

    async def stop(self) -> None:
        """Stop everything; nothing is left running, open or parked.

        Raises:
            BaseExceptionGroup: what brokers died of while they ran; all others are stopped first.
        """
        await self.admin.stop()
        outcomes = await asyncio.gather(*(broker.stop() for broker in self.brokers), return_exceptions=True)
        died = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if died:
            raise BaseExceptionGroup("brokers died while they ran", died)

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
