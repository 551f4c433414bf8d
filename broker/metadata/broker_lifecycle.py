"""A broker's registration and lease: it registers, keeps its lease, and stops leading before it can be fenced.

The store expires a lease that was not kept for the session timeout. The broker counts the session timeout from the time
it *sent* the heartbeat, on its own monotonic clock, and leaves a margin if that clock may be slow; so its count ends
first: then `has_lease` is false, and it leads no partition even if its image says so. An expired lease is never used
again, even if a late answer confirms it. The broker continues as the same incarnation when the committed image has it
under a new lease. It leads again when its replicas have the roles of that image: others may have been elected in
between.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol, TypeVar

from purgatorio.broker.metadata.controller import (
    DuplicateBrokerId,
    TopicSettings,
    fence_broker,
    random_epoch_step,
    register_broker,
    resume_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.image import NO_LEASE, BrokerIncarnation, Endpoint
from purgatorio.broker.metadata.store import Decision, MetadataStore, StoreClosed, StoreError, decide
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

T = TypeVar("T")


class RegistrationLost(Exception):
    """The committed image no longer has this incarnation of the broker, so the incarnation has to end."""


class Lease(Protocol):
    """The lease of a broker."""

    def may_lead(self) -> bool:
        """Return whether the broker certainly holds it, and so may act as a leader."""
        ...


class LeasedReplicas(Protocol):
    """The replicas of a broker, which lead only while it holds its lease."""

    @property
    def is_current(self) -> bool:
        """Whether all have the roles of the newest image; when that becomes true, call `caught_up`."""
        ...

    def lease_lost(self) -> None:
        """The lease has run out, or the broker stops leading because it is stopping."""
        ...

    def lease_resumed(self) -> None:
        """The broker may lead again after it had lost its lease."""
        ...


class NoReplicas(LeasedReplicas):
    """A broker has none before it is composed."""

    @property
    def is_current(self) -> bool:
        return True

    def lease_lost(self) -> None:
        return

    def lease_resumed(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease lasts, and how often it is kept.

    Attributes:
        session_timeout_ms: the time without a heartbeat after which the store expires the lease.
        heartbeat_interval_ms: the time between heartbeats.
        slowest_rate: how slow the broker's clock may be: its seconds in a second of the store's clock. Below 1 the
            broker takes its lease for shorter than the store does. 1: they are one clock.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    slowest_rate: float = 1.0


class BrokerLifecycleManager:
    """The registration and lease of one broker.

    Args:
        clock: times the lease and the heartbeats.
        terms: of the lease.
        rack: the broker's, for its registration.
        settings: the defaults of topic configs.
        rng: chooses for each registration by how much the broker epoch exceeds the last one of the cluster; None: by 1.

    Attributes:
        replicas: what leads by the lease; set when the broker is composed.
    """

    def __init__(
        self,
        broker_id: int,
        store: MetadataStore,
        *,
        clock: Clock,
        terms: LeaseTerms,
        rack: str | None,
        settings: TopicSettings,
        rng: Random | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._clock = clock
        self._rack = rack
        self._terms = terms
        self._settings = settings
        self._rng = rng
        self.replicas: LeasedReplicas = NoReplicas()
        self._incarnation: BrokerIncarnation | None = None
        self._lease_id = NO_LEASE
        self._lease_ends_ms = 0
        self._roles_may_be_old = False  # others may have been elected since the lease was lost
        self._fencing: set[int] = set()
        self._stopping = False
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def incarnation(self) -> BrokerIncarnation | None:
        """The registered incarnation, even if it is fenced; None before the registration."""
        return self._incarnation

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of that incarnation; -1 before the registration."""
        return -1 if self._incarnation is None else self._incarnation.broker_epoch

    def has_lease(self) -> bool:
        """Return whether the lease has certainly not expired."""
        return self._clock.now_ms() < self._lease_ends_ms

    def _certain_ms(self) -> int:
        """Return the time on this broker's clock for which the store certainly keeps a lease."""
        return int(self._terms.session_timeout_ms * self._terms.slowest_rate)

    def may_lead(self) -> bool:
        """Return whether this broker may act as a leader: it certainly holds its lease, and has the roles to it."""
        # `has_lease` without its call: each append and each fetch asks.
        return not self._roles_may_be_old and self._clock.now_ms() < self._lease_ends_ms

    def caught_up(self) -> None:
        """Lead again if this broker was fenced, holds a lease again, and all its replicas have their new roles."""
        if self._roles_may_be_old and self.has_lease() and self.replicas.is_current:
            self._roles_may_be_old = False
            logger.info("new lease: this broker may lead again", broker=self._broker_id)
            self.replicas.lease_resumed()

    async def register(self, endpoints: tuple[Endpoint, ...]) -> BrokerIncarnation:
        """Register this broker; returns when its image shows the registration.

        A broker that crashed and restarts waits until the lease of its earlier incarnation expires.

        Raises:
            DuplicateBrokerId: a live broker has this id, and keeps its lease.
        """
        # Before the registration, since no other broker may be there to fence the earlier incarnation.
        self._unwatch = self._store.watch_lost_leases(self._fence)
        give_up_ms: int | None = None
        while True:
            lease_id, ends_ms = await self._new_lease()
            try:
                epoch = await decide(self._store, self._registering(endpoints, lease_id), lease_id=lease_id)
            except StoreClosed:
                raise
            except StoreError as error:
                await self._pause_after(error)
                continue
            except DuplicateBrokerId:
                now_ms = self._clock.now_ms()
                give_up_ms = now_ms + 2 * self._terms.session_timeout_ms if give_up_ms is None else give_up_ms
                if now_ms >= give_up_ms:
                    raise
                await self._clock.sleep(self._terms.heartbeat_interval_ms)
                continue
            self._incarnation = BrokerIncarnation(self._broker_id, epoch)
            self._lease_id, self._lease_ends_ms = lease_id, ends_ms
            return self._incarnation

    async def unregister(self, *, timeout_ms: int) -> None:
        """Stop leading, and unregister; if the store does not answer in time, the lease expires later."""
        self._stopping = True
        self._lease_ends_ms = 0
        self.replicas.lease_lost()
        epoch = self.broker_epoch
        try:
            async with time_limit(self._clock, timeout_ms):
                await decide(
                    self._store,
                    lambda image: unregister_broker(image, self._broker_id, epoch, settings=self._settings),
                )
        except (TimeoutError, StoreError) as error:
            logger.warning("stopping without unregistering", broker=self._broker_id, reason=str(error) or "no answer")

    async def run(self) -> None:
        """Keep the lease, and get a new one when it is lost, until cancelled.

        Raises:
            RegistrationLost: the committed image no longer has this incarnation.
        """
        while True:
            await self._keep_lease()
            if self._stopping:
                return
            self._roles_may_be_old = True
            self.replicas.lease_lost()
            logger.warning(
                "lease lost: this broker leads no partition until it has a new lease", broker=self._broker_id
            )
            if not await self._resume():
                return
            self.caught_up()

    def close(self) -> None:
        """Stop fencing the brokers of expired leases."""
        self._unwatch()

    async def _keep_lease(self) -> None:
        """Send heartbeats as long as the lease is valid; returns as soon as it is not."""
        while self.has_lease():
            lease_id, sent_ms = self._lease_id, self._clock.now_ms()

            def kept(lasts: bool, lease_id: int = lease_id, sent_ms: int = sent_ms) -> None:
                if lease_id != self._lease_id or not self.has_lease():
                    return
                self._lease_ends_ms = sent_ms + self._certain_ms() if lasts else 0

            self._store.keep_lease(lease_id, kept)
            await self._clock.sleep(min(self._terms.heartbeat_interval_ms, max(1, self._lease_ends_ms - sent_ms)))

    async def _resume(self) -> bool:
        """Continue under a new lease; returns False if this broker is stopping or its store is closed."""
        while True:
            lease_id, ends_ms = await self._new_lease()
            try:
                may_continue = await decide(self._store, self._resuming(lease_id), lease_id=lease_id)
            except StoreClosed:
                return False
            except StoreError as error:
                await self._pause_after(error)
                continue
            if self._stopping:
                return False
            if not may_continue:
                raise RegistrationLost(self._whose_id())
            self._lease_id, self._lease_ends_ms = lease_id, ends_ms
            return True

    def _whose_id(self) -> str:
        """Return why this incarnation has no registration."""
        why = f"broker {self._broker_id} is not registered in epoch {self.broker_epoch} any more"
        holder = self._store.image.brokers.get(self._broker_id)
        if holder is None or holder.broker_epoch == self.broker_epoch:
            return why
        return f"{why}: the broker at {holder.endpoints[0].host}:{holder.endpoints[0].port} has its id now"

    async def _pause_after(self, error: StoreError) -> None:
        """Pause before the next attempt: the lease expired meanwhile, or the store refused the change."""
        logger.debug("registration not changed", broker=self._broker_id, reason=str(error))
        await self._clock.sleep(self._terms.heartbeat_interval_ms)

    def _registering(self, endpoints: tuple[Endpoint, ...], lease_id: int) -> Decision[int]:
        step = 1 if self._rng is None else random_epoch_step(self._rng)
        return lambda image: register_broker(
            image, self._broker_id, endpoints, self._rack, lease_id=lease_id, epoch_step=step, settings=self._settings
        )

    def _resuming(self, lease_id: int) -> Decision[bool]:
        epoch = self.broker_epoch
        return lambda image: resume_broker(image, self._broker_id, epoch, lease_id, settings=self._settings)

    async def _new_lease(self) -> tuple[int, int]:
        """Return a new lease, and the time until which it is certainly valid; retry while the store does not answer."""
        loop = asyncio.get_running_loop()
        while True:
            answer: asyncio.Future[int] = loop.create_future()
            ends_ms = self._clock.now_ms() + self._certain_ms()
            self._store.grant_lease(self._terms.session_timeout_ms, partial(_set, answer))
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, self._terms.session_timeout_ms):
                    await asyncio.wait([answer])
            if answer.done() and self._clock.now_ms() < ends_ms:
                return answer.result(), ends_ms

    def _fence(self, lease_id: int) -> None:
        """Fence the broker of an expired lease. Every live broker tries to; the first decision takes effect."""
        if lease_id in self._fencing:
            return
        self._fencing.add(lease_id)

        def done(fenced: int | None) -> None:
            self._fencing.discard(lease_id)
            if fenced is not None:
                logger.warning("broker fenced: its lease expired", broker=fenced, by=self._broker_id)

        def failed(error: Exception) -> None:
            self._fencing.discard(lease_id)
            if not isinstance(error, StoreClosed):
                logger.warning("fencing a broker failed", by=self._broker_id, reason=str(error))

        self._store.submit(lambda image: fence_broker(image, lease_id, settings=self._settings), done, failed)


def _set(future: asyncio.Future[T], result: T) -> None:
    """Set a future's result if it is not done; its waiter may have given up."""
    if not future.done():
        future.set_result(result)
