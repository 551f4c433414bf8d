"""A Kafka-protocol mini-broker in asyncio Python whose purgatory you can watch.

A cluster in three lines of asyncio code::

    from purgatorio import Cluster, ClusterConfig

    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        print(cluster.bootstrap)  # "127.0.0.1:…,…": what a Kafka client connects to

The parts: `purgatorio.purgatory` (delayed operations, a library of its own), `purgatorio.protocol` (bytes to messages
and back), `purgatorio.broker` (answers clients), `purgatorio.admin` (the page, the commands, the metrics) and
`purgatorio.pipeline` (topics in PySpark).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from purgatorio import moved

if TYPE_CHECKING:
    from purgatorio.admin.cluster import Cluster
    from purgatorio.broker.config import BrokerConfig, ClusterConfig

    __version__: str

__all__ = ["BrokerConfig", "Cluster", "ClusterConfig", "__version__"]

moved.install()
# Without it `logging` would print warnings of a program that did not configure it.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the purgatory and the command's help need none of them."""
    if name == "Cluster":
        from purgatorio.admin.cluster import Cluster

        return Cluster
    if name in ("BrokerConfig", "ClusterConfig"):
        from purgatorio.broker import config

        return getattr(config, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("purgatorio")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
