"""A broker's membership: it registers, keeps its lease, and fences itself before anybody else takes it for dead.

The store lets a lease run out when it has heard nothing for the session timeout. This broker reckons from when it
*sent* what the store heard, on its own monotonic clock, so it knows first: from then on `has_lease` is false, and it
leads nothing, whatever its metadata say. A lease that has run out is never used again, however late an answer about it
arrives; the broker takes part again, as the same life, once the truth says so under a new lease.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from purgatorio.broker.clock import Clock, time_limit
from purgatorio.broker.metadata.controller import (
    DuplicateBrokerId,
    TopicSettings,
    fence_broker,
    register_broker,
    resume_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.image import NO_LEASE, BrokerIncarnation, Endpoint
from purgatorio.broker.metadata.store import Decision, MetadataStore, StoreClosed, StoreError
from purgatorio.logger import get_logger

logger = get_logger(__name__)

T = TypeVar("T")


class RegistrationLost(Exception):
    """This broker's registration is gone, or its id belongs to another broker: this life of it has to end."""


class BrokerLifecycleManager:
    """The membership of one broker.

    Args:
        store: where it registers.
        clock: tells when its lease may have run out.
        session_timeout_ms: how long the store waits for a sign of life.
        heartbeat_interval_ms: how often it gives one.
        settings: the defaults of topic configs.
        resumed: told that this broker holds a lease again after it had lost one.
    """

    def __init__(
        self,
        broker_id: int,
        store: MetadataStore,
        *,
        clock: Clock,
        rack: str | None,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        settings: TopicSettings,
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._clock = clock
        self._rack = rack
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._settings = settings
        self._resumed = resumed
        self._incarnation: BrokerIncarnation | None = None
        self._lease_id = NO_LEASE
        self._lease_ends_ms = 0
        self._fencing: set[int] = set()
        self._leaving = False
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def incarnation(self) -> BrokerIncarnation | None:
        """The life that was registered, fenced or not; None before that."""
        return self._incarnation

    @property
    def broker_epoch(self) -> int:
        """The epoch of that life; -1 before that."""
        return -1 if self._incarnation is None else self._incarnation.broker_epoch

    def has_lease(self) -> bool:
        """Whether nobody can have taken this broker for dead yet."""
        return self._clock.now_ms() < self._lease_ends_ms

    def may_lead(self) -> bool:
        """Whether to act as a leader: this broker fences itself before anybody else does."""
        return self.has_lease()

    async def register(self, endpoints: tuple[Endpoint, ...]) -> BrokerIncarnation:
        """Make this broker known; returns when the metadata that it sees say so.

        A broker that died and comes back waits for the end of its earlier life's session, as anybody else would.

        Raises:
            DuplicateBrokerId: another broker has this id, and goes on living.
        """
        # From now on, since nobody else may be there to see that the earlier life has ended.
        self._unwatch = self._store.watch_lost_leases(self._fence)
        give_up_ms: int | None = None
        while True:
            lease_id, ends_ms = await self._new_lease()
            try:
                epoch = await self._decide(self._registering(endpoints, lease_id), lease_id)
            except StoreClosed:
                raise
            except StoreError as error:
                await self._try_again(error)
                continue
            except DuplicateBrokerId:
                now_ms = self._clock.now_ms()
                give_up_ms = now_ms + 2 * self._session_timeout_ms if give_up_ms is None else give_up_ms
                if now_ms >= give_up_ms:
                    raise
                await self._clock.sleep(self._heartbeat_interval_ms)
                continue
            self._incarnation = BrokerIncarnation(self._broker_id, epoch)
            self._lease_id, self._lease_ends_ms = lease_id, ends_ms
            return self._incarnation

    async def unregister(self, *, timeout_ms: int) -> None:
        """Leave the cluster, and lead nothing from now on; a store that does not answer in time is left to find out."""
        self._leaving = True
        self._lease_ends_ms = 0
        epoch = self.broker_epoch
        try:
            async with time_limit(self._clock, timeout_ms):
                await self._decide(
                    lambda image: unregister_broker(image, self._broker_id, epoch, settings=self._settings), NO_LEASE
                )
        except (TimeoutError, StoreError) as error:
            logger.warning("left without saying so", broker=self._broker_id, reason=str(error) or "no answer")

    async def run(self) -> None:
        """Keep the lease, and get a new one when it is lost, until cancelled.

        Raises:
            RegistrationLost: this life has no place in the cluster any more.
        """
        while True:
            await self._keep_lease()
            if self._leaving:
                return
            logger.warning("lease lost: this broker leads nothing until it has another", broker=self._broker_id)
            if not await self._resume():
                return
            logger.info("lease held again", broker=self._broker_id)
            self._resumed()

    def close(self) -> None:
        """Fence nobody any more."""
        self._unwatch()

    async def _keep_lease(self) -> None:
        """Give signs of life for as long as the lease lasts."""
        while self.has_lease():
            lease_id, sent_ms = self._lease_id, self._clock.now_ms()

            def kept(lasts: bool, lease_id: int = lease_id, sent_ms: int = sent_ms) -> None:
                if lease_id != self._lease_id or not self.has_lease():
                    return
                self._lease_ends_ms = sent_ms + self._session_timeout_ms if lasts else 0

            self._store.keep_lease(lease_id, kept)
            await self._clock.sleep(self._heartbeat_interval_ms)

    async def _resume(self) -> bool:
        """Take part again under a new lease; False if this broker is leaving, or its store is closed."""
        while True:
            lease_id, ends_ms = await self._new_lease()
            try:
                goes_on = await self._decide(self._resuming(lease_id), lease_id)
            except StoreClosed:
                return False
            except StoreError as error:
                await self._try_again(error)
                continue
            if self._leaving:
                return False
            if not goes_on:
                raise RegistrationLost(
                    f"broker {self._broker_id} is not registered in epoch {self.broker_epoch} any more"
                )
            self._lease_id, self._lease_ends_ms = lease_id, ends_ms
            return True

    async def _try_again(self, error: StoreError) -> None:
        """The store would not have it now: the lease ran out on the way, or others were faster."""
        logger.debug("membership not changed", broker=self._broker_id, reason=str(error))
        await self._clock.sleep(self._heartbeat_interval_ms)

    def _registering(self, endpoints: tuple[Endpoint, ...], lease_id: int) -> Decision[int]:
        return lambda image: register_broker(
            image, self._broker_id, endpoints, self._rack, lease_id=lease_id, settings=self._settings
        )

    def _resuming(self, lease_id: int) -> Decision[bool]:
        epoch = self.broker_epoch
        return lambda image: resume_broker(image, self._broker_id, epoch, lease_id, settings=self._settings)

    async def _new_lease(self) -> tuple[int, int]:
        """A lease, and when it certainly still lasts; asked for again and again while the store does not answer."""
        loop = asyncio.get_running_loop()
        while True:
            answer: asyncio.Future[int] = loop.create_future()
            ends_ms = self._clock.now_ms() + self._session_timeout_ms
            self._store.grant_lease(self._session_timeout_ms, partial(_set, answer))
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, self._session_timeout_ms):
                    await asyncio.wait([answer])
            if answer.done() and self._clock.now_ms() < ends_ms:
                return answer.result(), ends_ms

    async def _decide(self, decide: Decision[T], lease_id: int) -> T:
        """Have a decision committed while a lease lasts.

        Raises:
            LeaseLost, StoreError, or what the decision raised.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def failed(error: Exception) -> None:
            if not answer.done():
                answer.set_exception(error)

        self._store.submit(decide, lambda result: _set(answer, result), failed, lease_id=lease_id)
        return await answer

    def _fence(self, lease_id: int) -> None:
        """The lease of some broker has run out. Whoever learns of it says so; the first one is heard."""
        if lease_id in self._fencing:
            return
        self._fencing.add(lease_id)

        def done(fenced: int | None) -> None:
            self._fencing.discard(lease_id)
            if fenced is not None:
                logger.warning("broker fenced: its lease ran out", broker=fenced, by=self._broker_id)

        def failed(error: Exception) -> None:
            self._fencing.discard(lease_id)
            if not isinstance(error, StoreClosed):
                logger.warning("a broker could not be fenced", by=self._broker_id, reason=str(error))

        self._store.submit(lambda image: fence_broker(image, lease_id, settings=self._settings), done, failed)


def _set(future: asyncio.Future[T], result: T) -> None:
    """Set a result that may come after nobody waits for it any more."""
    if not future.done():
        future.set_result(result)
