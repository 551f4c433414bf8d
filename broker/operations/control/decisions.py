"""Decisions of the metadata store that an operator asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import MetadataStore, StoreError
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


async def decided(store: MetadataStore, decide: Callable[[ClusterImage], tuple[ClusterImage, R]], not_done: str) -> R:
    """Have the metadata store decide, and return its result.

    Args:
        decide: returns the metadata that follow, and the result; it may raise a refusal.
        not_done: begins the message of a failure: "the user was not changed".

    Raises:
        ClusterUnavailable: the store could not decide.
    """
    answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    store.submit(
        decide,
        lambda result: None if answer.done() else answer.set_result(result),
        lambda error: None if answer.done() else answer.set_exception(error),
    )
    try:
        return await answer
    except StoreError as error:
        raise ClusterUnavailable(f"{not_done}: {error}") from error


async def decided_for_all(
    network: Network, decide: Callable[[ClusterImage], tuple[ClusterImage, R]], not_done: str, what: str
) -> R:
    """As `decided`, by the newest broker; return when all brokers that reach the metadata store know `what`.

    Raises:
        ClusterUnavailable: no broker runs that could ask, or brokers did not hear of it in time.
    """
    broker = newest(network)
    result = await decided(broker.store, decide, not_done)
    version = broker.image.version
    await until(lambda: all(each.image.version >= version for each in network.brokers), f"all brokers know {what}")
    return result
