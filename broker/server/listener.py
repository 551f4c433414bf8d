"""Listens on one address, owns the connections that it accepts, and stops without leaving any."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from purgatorio.broker.layers.faults.toxic_rule import Toxics
from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.routing.request import Routes
from purgatorio.broker.security.brokers_tls import REMEDY
from purgatorio.broker.server import open_files
from purgatorio.broker.server.connection import Connection
from purgatorio.broker.server.connection_slots import ConnectionSlots, Slot
from purgatorio.broker.server.connection_snapshot import ConnectionSnapshot
from purgatorio.broker.server.dispatch import Dispatcher
from purgatorio.broker.server.hang_ups import HangUps
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.listening import PlainAcceptor, can_watch_sockets
from purgatorio.broker.server.refusal_log import RefusalLog
from purgatorio.broker.server.request_queue import RequestMemory
from purgatorio.broker.server.shared_services import ListenerParts, Login, SharedServices
from purgatorio.broker.server.tls_acceptor import TlsAcceptor
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Alarm, Clock, time_limit
from purgatorio.unpatched import plain_socket

_log = get_logger(__name__)


class Listener:
    """Accepts connections on one address and serves the routes on them. A broker may have several listeners.

    Args:
        name: which of a broker's listeners this is: in sessions, logs and snapshots, and part of connection ids.
        routes: the APIs that are answered, with their handlers.
        parts: what it shares with the broker's other listeners.
        slots: how many connections there may be; several listeners may share them.
        login: how clients show who they are.
        rates: how fast connections may come; None: as fast as they do.
        goes_first: the clients are other brokers, whose turns come first once they have proved it.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        parts: ListenerParts,
        slots: ConnectionSlots,
        *,
        login: Login,
        rates: ConnectionRates | None = None,
        goes_first: bool = False,
    ) -> None:
        self.name = name
        self._routes = routes
        self._parts = parts
        self._limits = parts.limits
        self._clock = parts.clock
        self._deadline_clock = parts.deadline_clock
        self._observer = parts.observer
        self._login = login
        self.refusals = RefusalLog(name, parts.clock)
        self._late = None if rates is None else ThrottledConnections(rates, parts.clock, self._refused)
        self._connections: dict[Connection, None] = {}
        self._slots = slots
        self._goes_first = goes_first
        self._hang_ups: HangUps[Connection] = HangUps()
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | PlainAcceptor | TlsAcceptor | None = None
        self._address: tuple[str, int] | None = None
        self._accepting = False
        self._held = False
        self._toxics: Toxics | None = None
        self._files_ran_out = False
        self._answers_short = False
        self.unsent_bytes = 0
        self._sweep_alarm: Alarm | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def address(self) -> tuple[str, int]:
        """The host and port on which the listener accepts, or did before it was stopped.

        Raises:
            RuntimeError: the listener was not started.
        """
        if self._address is None:
            raise RuntimeError(f"listener {self.name} was not started")
        return self._address

    @property
    def memory(self) -> RequestMemory:
        """Counts the request bytes that connections hold."""
        return self._parts.memory

    async def start(self, host: str, port: int, listening: Sequence[socket.socket] = ()) -> None:
        """Accept connections.

        Args:
            port: 0 takes any free port; `address` has it afterwards.
            listening: accept from these sockets, which `keep_port` or `hold_port` of an earlier listener returned,
                instead of opening some; the listener closes them.

        Raises:
            OSError: the address cannot be listened on.
            RuntimeError: the listener was started before.
        """
        if self._server is not None:
            raise RuntimeError(f"listener {self.name} was started before")
        loop = asyncio.get_running_loop()
        services = SharedServices(
            listener=self.name,
            limits=self._limits,
            clock=self._clock,
            deadline_clock=self._deadline_clock,
            turns=self._parts.turns,
            goes_first=self._goes_first,
            dispatcher=Dispatcher(self._routes),
            answers=self._parts.answers,
            memory=self._parts.memory,
            observer=self._observer,
            sasl=self._login.sasl,
            refusals=self.refusals,
            identify=self._login.identify,
        )
        self._accepting = True

        def connect(slot: Slot | None = None) -> Connection:
            return Connection(services, self, f"{self.name}-{next(self._numbers)}", slot)

        tls = self._login.tls
        if tls is None and not can_watch_sockets(loop):
            # Such a loop serves one socket that is open already, that of the first address.
            where: dict[str, Any] = {"sock": listening[0]} if listening else {"host": host, "port": port}
            for other in listening[1:]:
                other.close()
            self._server = await loop.create_server(connect, **where, backlog=self._limits.accept_backlog)
        else:
            acceptor = self._plain(connect) if tls is None else self._over_tls(tls, connect)
            self._server = acceptor
            await acceptor.open(host, port, self._limits.accept_backlog, listening)
        self._address = self._server.sockets[0].getsockname()[:2]
        self._schedule_sweep()

    def _plain(self, connect: Callable[[], Connection]) -> PlainAcceptor:
        return PlainAcceptor(connect, self._clock)

    def _over_tls(self, context: Callable[[], ssl.SSLContext], connect: Callable[[Slot], Connection]) -> TlsAcceptor:
        def refused(reason: Refusal, detail: str, peer: str) -> None:
            if self._goes_first and reason is Refusal.TLS_HANDSHAKE_FAILED:
                detail += f"; {REMEDY}"
            self._observer.refused(reason)
            self.refusals.refused(reason, detail, peer=peer, client_id=None)

        return TlsAcceptor(
            connect,
            context,
            slots=self._slots,
            refused=refused,
            handshake_ms=self._limits.handshake_ms,
            clock=self._deadline_clock,
        )

    def keep_port(self) -> list[socket.socket]:
        """Return sockets that listen on even when this listener is stopped, for another listener's `start`.

        A host may have several addresses, each with a socket; all have the same port. No other process can take the
        port between the two; clients that connect meanwhile wait.

        Raises:
            RuntimeError: the listener does not accept connections.
        """
        if self._server is None or not self._server.sockets:
            raise RuntimeError(f"listener {self.name} accepts no connections")
        if isinstance(self._server, PlainAcceptor | TlsAcceptor):
            return self._server.kept(listening=True)
        return [plain_socket().fromfd(each.fileno(), each.family, each.type) for each in self._server.sockets]

    def hold_port(self) -> list[socket.socket]:
        """Return sockets that have the port when this listener is stopped, and refuse clients, for another `start`.

        They need `hold` then. There is none if the listener does not accept, or if its event loop owns the sockets.
        """
        if isinstance(self._server, PlainAcceptor | TlsAcceptor):
            return self._server.kept(listening=False)
        return []

    def allow_connections(self, max_connections: int, max_connections_per_ip: int) -> None:
        """Accept this many connections from now on, in all and of one address; those that are open stay open."""
        self._slots.allow(max_connections, max_connections_per_ip)

    def connections(self, limit: int | None = None) -> list[ConnectionSnapshot]:
        """The state of each connection, oldest first; of the first `limit` ones, if it is given."""
        now_ms = self._deadline_clock.now_ms()
        return [connection.snapshot(now_ms) for connection in itertools.islice(self._connections, limit)]

    # Deadlines.

    def sweep(self) -> None:
        """Close every connection that is past one of its deadlines; called every `sweep_interval_ms` of the clock."""
        now_ms = self._deadline_clock.now_ms()
        self.unsent_bytes = unsent_bytes = sum(connection.unsent_bytes for connection in self._connections)
        answers_short = unsent_bytes > self._limits.unsent_memory_bytes
        # After a shortage every connection is swept once more, and notices its end.
        skips_quiet = not answers_short and not self._answers_short
        self._answers_short = answers_short
        for connection in list(self._connections):
            if not (skips_quiet and connection.is_quiet(now_ms)):
                connection.enforce_deadlines(now_ms, answers_short=answers_short)
        for connection, has_sent in self._hang_ups.gone():
            connection.client_gone(now_ms, has_sent=has_sent)
        self._warn_if_files_ran_out()

    def _warn_if_files_ran_out(self) -> None:
        """Say once that no file is free for a new connection; event loops close or ignore it without a word."""
        ran_out = not open_files.is_one_free()
        if ran_out and not self._files_ran_out:
            _log.warning(
                "no open file is left: new clients are refused",
                listener=self.name,
                limit=open_files.limit(),
                connections=len(self._connections),
                remedy="raise the limit of open files (ulimit -n), or lower max.connections",
            )
        self._files_ran_out = ran_out

    def _schedule_sweep(self) -> None:
        self._sweep_alarm = self._clock.call_later(self._limits.sweep_interval_ms, self._sweep_and_repeat)

    def _sweep_and_repeat(self) -> None:
        self._schedule_sweep()
        self.sweep()

    # Called by the connections.

    def enter(self, connection: Connection) -> tuple[Refusal, str] | None:
        """Add a new connection to the list, or return why it is refused."""
        if not self._accepting:
            return Refusal.STOPPING, "the listener stops"
        if connection.slot is None:
            slot = self._slots.take(connection.session.host, connection)
            if not isinstance(slot, Slot):
                return slot
            connection.slot = slot
        elif connection.slot.is_held:
            connection.slot.guest = connection
        else:
            return Refusal.NOT_LOGGED_IN, "another client has got its slot meanwhile"
        self._connections[connection] = None
        self._empty.clear()
        if self._toxics is not None:
            connection.pass_toxics(self._toxics)
        if self._held:
            connection.hold()
        if self._late is not None:
            self._late.entered(connection)
        return None

    def _refused(self, reason: Refusal, detail: str, connection: Connection) -> None:
        self._observer.refused(reason)
        self.refusals.refused(reason, detail, peer=connection.session.peer, client_id=None)

    def logged_in(self, connection: Connection) -> None:
        """A connection has authenticated, or has requested something if it need not."""
        assert connection.slot is not None, "it has entered"
        self._slots.logged_in(connection.slot)

    def throttled(self, connection: Connection) -> None:
        """A connection is not read from now on."""
        self._hang_ups.watch(connection, connection.transport)

    def unthrottled(self, connection: Connection) -> None:
        """A connection is read again."""
        self._hang_ups.forget(connection)

    def left(self, connection: Connection) -> None:
        """Remove a connection that is gone."""
        del self._connections[connection]
        if self._late is not None:
            self._late.left(connection)
        self._hang_ups.forget(connection)
        assert connection.slot is not None, "it has entered"
        self._slots.leave(connection.slot)
        connection.slot = None  # it refers to the connection
        if not self._connections:
            self._empty.set()

    # A bad network.

    def pass_toxics(self, toxics: Toxics) -> None:
        """Have the bytes of all connections, present and new ones, pass these toxics, in place of those before."""
        self._toxics = toxics if toxics.rules else None
        for connection in list(self._connections):
            connection.pass_toxics(toxics)

    # Standing still.

    def hold(self) -> None:
        """Read and send nothing on any connection, present or new, until `release`: as a process that was stopped."""
        self._held = True
        for connection in self._connections:
            connection.hold()

    def release(self) -> None:
        """Go on after `hold`."""
        self._held = False
        for connection in list(self._connections):
            connection.release()

    # Stopping.

    def stop_accepting(self) -> None:
        """Accept no further connection and start no further request; requests in flight go on.

        The port is free afterwards, unless it is kept. To stop in good order, call this, answer the parked requests,
        then `drain`.
        """
        self._accepting = False
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.accept_no_more()

    async def drain(self, grace_ms: int) -> None:
        """Close each connection when its last answer was sent, and abort those that remain after `grace_ms`.

        When it returns no connection, no alarm and no socket is left. Cancelling it aborts the connections.
        """
        self.stop_accepting()
        for connection in list(self._connections):
            connection.close_when_answered()
        try:
            await self._wait_until_empty(grace_ms)
            if self._connections:
                _log.warning("connections aborted", listener=self.name, count=len(self._connections), grace_ms=grace_ms)
        finally:
            if self._sweep_alarm is not None:
                self._sweep_alarm.cancel()
            for connection in list(self._connections):
                connection.abort()
        await self._empty.wait()
        if self._server is not None:
            await self._server.wait_closed()

    async def _wait_until_empty(self, grace_ms: int) -> None:
        """Wait until all connections are gone, at most for the grace; without a grace, one turn of the event loop.

        No alarm is set for that turn: a `ManualClock` that stands still would never ring it.
        """
        if grace_ms <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with time_limit(self._clock, grace_ms):
                await self._empty.wait()

    def abort(self) -> None:
        """Close the port and all connections now, without answers; `drain` waits until they are gone."""
        self._accepting = False
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()

    async def stop(self, grace_ms: int = 2_000) -> None:
        """Call `stop_accepting` and `drain`, if nothing needs to be done between them."""
        self.stop_accepting()
        await self.drain(grace_ms)


class ThrottledConnections:
    """Keeps connections that come too fast waiting, each a second at most; those of an address above its quota unread.

    Kafka accepts late where a broker has a rate, so that clients wait in the kernel's queue. Here asyncio accepts at
    once, and the connection is read when its time has come.

    Args:
        rates: how fast connections may come.
        clock: ends the waits.
        refuse: logs and counts why a connection is closed.
    """

    def __init__(
        self, rates: ConnectionRates, clock: Clock, refuse: Callable[[Refusal, str, Connection], None]
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._refuse = refuse
        self._alarms: dict[Connection, Alarm] = {}

    def entered(self, connection: Connection) -> None:
        """Keep a new connection waiting if it came too fast."""
        host = connection.session.host
        delay_ms = self._rates.refuse_after_ms(host)
        then: Callable[[Connection], None] = self._close
        if delay_ms:
            self._refuse(Refusal.CONNECTION_RATE_OF_ADDRESS, f"connections of {host} come too fast", connection)
        else:
            delay_ms = self._rates.read_after_ms()
            then = self._read
        if delay_ms:
            connection.throttle()
            self._alarms[connection] = self._clock.call_later(delay_ms, then, connection)

    def left(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        alarm = self._alarms.pop(connection, None)
        if alarm is not None:
            alarm.cancel()

    def _close(self, connection: Connection) -> None:
        del self._alarms[connection]
        connection.abort()

    def _read(self, connection: Connection) -> None:
        del self._alarms[connection]
        connection.unthrottle()
