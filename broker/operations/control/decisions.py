"""Decisions of the metadata store that an operator asks for."""

from __future__ import annotations

from typing import TypeVar

from purgatorio.broker.metadata.store import Decision, MetadataStore, StoreError, decide
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.operations.control.network import Network
from purgatorio.broker.operations.control.polling import until
from purgatorio.broker.operations.errors import ClusterUnavailable

R = TypeVar("R")


def newest(network: Network) -> Broker:
    """Return the broker with the newest metadata among those that reach the metadata store.

    Raises:
        ClusterUnavailable: no broker does.
    """
    brokers = network.brokers
    if not brokers:
        raise ClusterUnavailable("no broker is running that reaches the metadata")
    return max(brokers, key=lambda each: each.image.version)


async def decided(store: MetadataStore, decision: Decision[R], not_done: str) -> R:
    """Have the metadata store decide, and return its result.

    Args:
        decision: it may raise a refusal.
        not_done: begins the message of a failure: "the user was not changed".

    Raises:
        ClusterUnavailable: the store could not decide.
    """
    try:
        return await decide(store, decision)
    except StoreError as error:
        raise ClusterUnavailable(f"{not_done}: {error}") from error


async def decided_for_all(network: Network, decision: Decision[R], not_done: str, what: str) -> R:
    """As `decided`, by the newest broker; return when all brokers that reach the metadata store know `what`.

    Raises:
        ClusterUnavailable: no broker runs that could ask, or brokers did not hear of it in time.
    """
    broker = newest(network)
    result = await decided(broker.store, decision, not_done)
    version = broker.image.version
    await until(lambda: all(each.image.version >= version for each in network.brokers), f"all brokers know {what}")
    return result
