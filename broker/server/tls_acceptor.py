"""Accepts connections and takes them through their TLS handshakes, before they are connections of the listener.

An event loop's own server hides a TLS connection until its handshake is done. This one counts those that are
under way, refuses too many, and reports why one failed. Handshakes are the dearest thing that a client can ask for
(half a millisecond), and all of it is spent when the client's first message is there. So a handshake begins only then,
and only a few begin in a turn of the loop: a crowd that reconnects does not stall the others, even if all of its
clients send their last bytes at the same time.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable
from typing import Final

from purgatorio.broker.server.client_hello import MAX_HELLO_BYTES, bytes_of_hello
from purgatorio.broker.server.connection_slots import ConnectionSlots, Slot
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.listening import ListeningSockets
from purgatorio.purgatory.clock import Alarm, Clock, time_limit

MAX_HANDSHAKES_PER_TURN: Final = 8
"""Clients whose first messages are answered in one turn of the loop."""
UNLIMITED_SECONDS: Final = 86_400.0
"""The limit of a handshake by the event loop's own time, which goes on while the process stands still."""
SHUTDOWN_SECONDS: Final = 5.0
"""Longest wait for a client's half of the TLS closing; it costs nothing else than the socket."""

_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the client does not speak TLS; is its security.protocol PLAINTEXT?",
    "HTTP_REQUEST": "the client speaks HTTP",
    "UNKNOWN_PROTOCOL": "the client does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "the client speaks no TLS version that this listener has",
    "NO_SHARED_CIPHER": "the client and this listener have no cipher in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and ssl.client.auth is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is refused",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not trust this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses this broker's certificate",
}

Refused = Callable[[Refusal, str, str], None]
"""Called for a connection that ended before its handshake did, with the reason, details, and the client's address."""
_TOO_LONG: Final = "the TLS handshake took too long"
_CLOSED: Final = "the client closed the connection during the TLS handshake"


class _Arrival:
    """A client from its acceptance to the end of its handshake.

    Attributes:
        waits_for_bytes: how many bytes its first message has, as far as is known; 0 until some have come.
        task: its handshake; None before it began.
    """

    __slots__ = ("_acceptor", "client", "deadline_ms", "host", "peer", "slot", "task", "waits_for_bytes")

    slot: Slot

    def __init__(self, acceptor: TlsAcceptor, client: socket.socket, host: str, peer: str, deadline_ms: int) -> None:
        self._acceptor = acceptor
        self.client = client
        self.host = host
        self.peer = peer
        self.deadline_ms = deadline_ms
        self.waits_for_bytes = 0
        self.task: asyncio.Task[None] | None = None

    def make_room(self, why: str) -> None:
        """Close: the slot is another's."""
        self._acceptor.turn_away(self, Refusal.NOT_LOGGED_IN, why)


class TlsAcceptor:
    """Listens on one address for TLS connections.

    Args:
        protocol: makes the protocol of a connection, for which a slot was taken; `connection_made` is called after the
            handshake, and the slot is the connection's from then on.
        context: returns the TLS context for a new connection.
        slots: the slots for connections.
        refused: called for each connection that ended before.
        handshake_ms: the longest time from the connection to the client's first message, and of the handshake then.
        clock: times the wait for the first message and the handshake, and the next attempt when no client could be
            accepted.
    """

    def __init__(
        self,
        protocol: Callable[[Slot], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        *,
        slots: ConnectionSlots,
        refused: Refused,
        handshake_ms: int,
        clock: Clock,
    ) -> None:
        self._protocol = protocol
        self._context = context
        self._slots = slots
        self._refused = refused
        self._handshake_ms = handshake_ms
        self._clock = clock
        self._listening = ListeningSockets(self._arrived, clock)
        self._silent: dict[_Arrival, None] = {}
        self._ready: dict[_Arrival, None] = {}
        self._is_turn_asked_for = False
        self._handshakes: dict[asyncio.Task[None], _Arrival] = {}
        self._alarm: Alarm | None = None
        self.open = self._listening.open
        self.kept = self._listening.kept

    @property
    def sockets(self) -> list[socket.socket]:
        """The listening sockets; empty when they are closed."""
        return self._listening.sockets

    @property
    def handshakes(self) -> int:
        """How many clients were accepted whose handshakes have not ended."""
        return len(self._silent) + len(self._ready) + len(self._handshakes)

    def close(self) -> None:
        """Free the port, and end the handshakes that are under way."""
        self._listening.close()
        if self._alarm is not None:
            self._alarm.cancel()
        for arrival in [*self._silent, *self._ready]:
            self._end(arrival)
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing of it is left, after `close`."""
        if self._handshakes:
            await asyncio.wait(list(self._handshakes))

    def turn_away(self, arrival: _Arrival, reason: Refusal, detail: str) -> None:
        """Close a client's connection before its handshake has ended."""
        self._refused(reason, detail, arrival.peer)
        if arrival.task is not None:
            arrival.task.cancel()
        else:
            self._end(arrival)

    # Waiting for the client's first message.

    def _arrived(self, client: socket.socket, host: str, peer: str) -> None:
        arrival = _Arrival(self, client, host, peer, self._clock.now_ms() + self._handshake_ms)
        slot = self._slots.take(host, arrival)
        if not isinstance(slot, Slot):
            client.close()
            self._refused(*slot, peer)
            return
        arrival.slot = slot
        self._silent[arrival] = None
        asyncio.get_running_loop().add_reader(client, self._has_sent, arrival)
        if self._alarm is None:
            self._alarm = self._clock.call_later(self._handshake_ms, self._expire)

    def _has_sent(self, arrival: _Arrival) -> None:
        """Look at what has come, and wait for the rest without being called for each byte of it."""
        client = arrival.client
        try:
            data = client.recv(MAX_HELLO_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.turn_away(arrival, Refusal.TLS_HANDSHAKE_FAILED, _CLOSED)
            return
        wanted_bytes = bytes_of_hello(data)
        if wanted_bytes > len(data) and wanted_bytes != arrival.waits_for_bytes:
            arrival.waits_for_bytes = wanted_bytes
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted_bytes)
            return
        # All is there; or nothing more comes, and the handshake will fail.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        asyncio.get_running_loop().remove_reader(client)
        del self._silent[arrival]
        self._ready[arrival] = None
        self._ask_for_turn()

    def _expire(self) -> None:
        """Close the clients whose first messages have not come in time."""
        self._alarm = None
        now_ms = self._clock.now_ms()
        for arrival in list(self._silent):
            if arrival.deadline_ms > now_ms:
                self._alarm = self._clock.call_later(arrival.deadline_ms - now_ms, self._expire)
                return
            self.turn_away(arrival, Refusal.HANDSHAKE_TIMEOUT, _TOO_LONG)

    def _end(self, arrival: _Arrival) -> None:
        """Forget a client whose handshake has not begun."""
        if arrival in self._silent:
            asyncio.get_running_loop().remove_reader(arrival.client)
            del self._silent[arrival]
        else:
            del self._ready[arrival]
        arrival.client.close()
        self._slots.leave(arrival.slot)

    # The handshake.

    def _ask_for_turn(self) -> None:
        if self._ready and not self._is_turn_asked_for:
            self._is_turn_asked_for = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_turn_asked_for = False
        for arrival in list(itertools.islice(self._ready, MAX_HANDSHAKES_PER_TURN)):
            del self._ready[arrival]
            self._begin(arrival)
        self._ask_for_turn()

    def _begin(self, arrival: _Arrival) -> None:
        arrival.task = task = asyncio.create_task(self._shake_hands(arrival), name=f"tls handshake {arrival.peer}")
        self._handshakes[task] = arrival
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        arrival = self._handshakes.pop(task)
        if arrival.slot.guest is arrival:  # no connection has taken it over
            self._slots.leave(arrival.slot)
        if task.cancelled():  # it may not have begun, so that no transport closes the socket
            arrival.client.close()

    async def _shake_hands(self, arrival: _Arrival) -> None:
        try:
            async with time_limit(self._clock, self._handshake_ms):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: self._protocol(arrival.slot),
                    arrival.client,
                    ssl=self._context(),
                    ssl_handshake_timeout=UNLIMITED_SECONDS,
                    ssl_shutdown_timeout=SHUTDOWN_SECONDS,
                )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            reason, detail = _why(error)
            self._refused(reason, detail, arrival.peer)


def _why(error: Exception) -> tuple[Refusal, str]:
    """Return the reason for which a handshake failed, as its client's owner can use it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refusal.TLS_HANDSHAKE_FAILED, f"{_REASONS['CERTIFICATE_VERIFY_FAILED']}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return Refusal.TLS_HANDSHAKE_FAILED, _REASONS.get(reason, f"{reason or error}")
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return Refusal.HANDSHAKE_TIMEOUT, _TOO_LONG
    return Refusal.TLS_HANDSHAKE_FAILED, _CLOSED
