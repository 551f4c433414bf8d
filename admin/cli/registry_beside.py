"""A schema registry beside the cluster that a command runs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.listeners import SecurityProtocol, listener_configs
from purgatorio.registry import RegistryTarget, RegistryUnavailable, SchemaRegistry, free_port
from purgatorio.registry.kinds import chosen

DEFAULT_PORT: Final = 8081


class WantedRegistry(NamedTuple):
    """Which registry is to run: its name, "" for the one that is installed, and its port, 0 for any free one."""

    name: str
    port: int


@contextlib.asynccontextmanager
async def registry_beside(
    cluster: Cluster, config: ClusterConfig, wanted: WantedRegistry | None
) -> AsyncIterator[SchemaRegistry | None]:
    """Run a registry beside a running cluster; it begins anew when the cluster does.

    Raises:
        RegistryUnavailable: it is not installed, does not start, or cannot log in to this cluster.
    """
    if wanted is None:
        yield None
        return
    kind = chosen(wanted.name or None)
    port = wanted.port or free_port(config.host)
    target = RegistryTarget(plain_addresses(cluster, config), config.brokers, config.host, port, {})
    registry = SchemaRegistry(kind, target, lambda said: print(f"purgatorio: {said}", file=sys.stderr))

    async def restart() -> None:
        try:
            await asyncio.to_thread(registry.restart)
        except RegistryUnavailable as error:
            raise OperationRefused(f"the cluster has begun anew, but {error}") from None

    await asyncio.to_thread(registry.start)
    cluster.beside = restart
    try:
        yield registry
    finally:
        cluster.beside = None
        await asyncio.to_thread(registry.stop)


def plain_addresses(cluster: Cluster, config: ClusterConfig) -> str:
    """Return the brokers' addresses at a listener where clients need neither TLS nor to log in.

    Raises:
        RegistryUnavailable: there is no such listener.
    """
    listeners = listener_configs(config.broker)
    for name in (each.name for each in listeners if each.protocol is SecurityProtocol.PLAINTEXT):
        found = [each for _, endpoints in cluster.endpoints for each in endpoints if each.listener == name]
        if found:
            return ",".join(f"{each.host}:{each.port}" for each in found)
    raise RegistryUnavailable(
        "--registry needs a listener without TLS and SASL, for it has no credentials: add PLAINTEXT to listeners"
    )
