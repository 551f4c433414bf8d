"""Several brokers in one process: the cluster, its network and leadership, and snapshots of it.

Begin with `cluster.py`: the brokers share an event loop and the metadata store, and connect to each other over TCP.
`network.py` lets brokers stand still and cuts them off, `leadership.py` moves leaders, `snapshots.py` saves and
restores. The admin HTTP that shows and changes a cluster is above it: `purgatorio.admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purgatorio.broker.cluster.cluster import BrokerStateError

__all__ = ["BrokerStateError"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the errors beside it need no broker."""
    if name == "BrokerStateError":
        from purgatorio.broker.cluster.cluster import BrokerStateError

        return BrokerStateError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
