"""Decisions of the metadata store that an operator asks for, and waiting until brokers know them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from purgatorio.broker.cluster.errors import AwaitsElection, ClusterUnavailable, MayBeDone
from purgatorio.broker.cluster.network import Network
from purgatorio.broker.metadata.store import Decision, MetadataStore, StoreClosed, StoreError, decide
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.time.system_clock import SystemClock

POLL_MS: Final = 1
TIME_LIMIT_MS: Final = 10_000
_MACHINE: Final = SystemClock()
"""Such waits go by the machine's time: the brokers' may stand still (`MovableClock.freeze`)."""

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
        MayBeDone: the store was closed before it answered.
    """
    try:
        return await decide(store, decision)
    except StoreClosed as error:
        raise MayBeDone(f"{not_done}, unless the store has decided it: {error}") from error
    except StoreError as error:
        raise ClusterUnavailable(f"{not_done}: {error}") from error


async def decided_for_all(network: Network, decision: Decision[R], not_done: str, what: str) -> R:
    """As `decided`, by the newest broker; return when all brokers that reach the metadata store know `what`.

    Raises:
        ClusterUnavailable: no broker runs that could ask.
        MayBeDone: brokers did not hear of it in time.
    """
    broker = newest(network)
    result = await decided(broker.store, decision, not_done)
    version = broker.image.version
    await until(lambda: all(each.image.version >= version for each in network.brokers), f"all brokers know {what}")
    return result


async def until(holds: Callable[[], bool], what: str, time_limit_ms: int = TIME_LIMIT_MS) -> None:
    """Wait until a condition holds.

    Args:
        what: the condition, for the message: "all brokers know the new leader".

    Raises:
        MayBeDone: it did not hold in time.
    """
    deadline_ms = _MACHINE.now_ms() + time_limit_ms
    while not holds():
        if _MACHINE.now_ms() >= deadline_ms:
            raise MayBeDone(f"after {time_limit_ms / 1000:g} s it is still not so that {what}")
        await _MACHINE.sleep(POLL_MS)


async def when_led(do: Callable[[], Awaitable[R]], time_limit_ms: int = TIME_LIMIT_MS) -> R:
    """Do what needs leaders, again and again while one of them awaits its election; return what it returns.

    Args:
        do: it looks for its leaders before it changes anything.

    Raises:
        AwaitsElection: none was elected in time.
    """
    deadline_ms = _MACHINE.now_ms() + time_limit_ms
    while True:
        try:
            return await do()
        except AwaitsElection:
            if _MACHINE.now_ms() >= deadline_ms:
                raise
            await _MACHINE.sleep(POLL_MS)
