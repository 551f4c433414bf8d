"""Listeners for tests."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Routes
from purgatorio.broker.server.connection_slots import ConnectionSlots
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.request_queue import RequestMemory
from purgatorio.broker.server.shared_services import ListenerParts, Login
from purgatorio.broker.server.turns import Turns
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import LongWork
from purgatorio.purgatory.clock import Clock


class NullObserver:
    """An observer that counts nothing."""

    def connection_opened(self) -> None: ...

    def connection_closed(self) -> None: ...

    def refused(self, reason: Refusal) -> None: ...

    def bytes_in(self, size_bytes: int) -> None: ...

    def bytes_out(self, size_bytes: int) -> None: ...

    def request(self, api_key: int, api_version: int, seconds: float) -> None: ...


def listener_parts(
    limits: ConnectionLimits,
    clock: Clock,
    *,
    deadline_clock: Clock | None = None,
    observer: Any = None,
    memory: RequestMemory | None = None,
) -> ListenerParts:
    """Return what the listeners of a broker share."""
    return ListenerParts(
        limits=limits,
        clock=clock,
        deadline_clock=deadline_clock or clock,
        answers=Listings(LongWork(call_soon).of_owner()),
        turns=Turns(call_soon, clock.now_seconds),
        memory=memory or RequestMemory(limits.request_memory_bytes),
        observer=observer or NullObserver(),
    )


def listener_of(
    routes: Routes, parts: ListenerParts, *, name: str = "PLAINTEXT", login: Login | None = None, **more: Any
) -> Listener:
    """Return a listener that counts its own connections."""
    return Listener(name, routes, parts, ConnectionSlots(parts.limits), login=login or Login(), **more)
