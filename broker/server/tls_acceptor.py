"""Accepts connections and takes them through their TLS handshakes, before they are connections of the listener.

An event loop's own server shows a TLS connection to nobody until its handshake is done. This one counts those that are
under way, refuses too many, and tells why one failed. Handshakes are the dearest thing that a client can ask for (half
a millisecond), so that only a few begin in a turn of the loop: a crowd that reconnects does not stall the others.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from purgatorio.broker.clock import Alarm, Clock
from purgatorio.broker.server.limits import Refusal

MAX_HANDSHAKES_PER_TURN: Final = 8
"""New connections that begin their handshakes in one turn of the loop."""
SHUTDOWN_SECONDS: Final = 5.0
"""Longest wait for a client's half of the TLS closing; it costs nothing else than the socket."""
_ACCEPT_RETRY_MS: Final = 100

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
"""Is told of a connection that ended before its handshake did: why, in detail, and the client's address and port."""


class TlsAcceptor:
    """Listens on one address for TLS connections.

    Args:
        protocol: makes the protocol of a connection; `connection_made` is called after the handshake.
        context: returns the TLS context for a new connection.
        may_enter: returns why one more connection of an address is refused, given how many handshakes are under way, in
            all and of the address; None if it is not.
        refused: is told of connections that ended before.
        handshake_ms: the longest time of a handshake, by the event loop's time.
        clock: times the next attempt when no client could be accepted.

    Attributes:
        sockets: those that are listened on; empty when it is closed.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        *,
        may_enter: Callable[[str, int, int], tuple[Refusal, str] | None],
        refused: Refused,
        handshake_ms: int,
        clock: Clock,
    ) -> None:
        self._protocol = protocol
        self._context = context
        self._may_enter = may_enter
        self._refused = refused
        self._handshake_seconds = handshake_ms / 1000
        self._clock = clock
        self._of_host: Counter[str] = Counter()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: Alarm | None = None
        self.sockets: list[socket.socket] = []

    @property
    def handshakes(self) -> int:
        """How many handshakes are under way."""
        return len(self._handshakes)

    async def start(self, host: str, port: int, backlog: int, listening: socket.socket | None = None) -> None:
        """Listen.

        Args:
            listening: a socket that listens already, to be used instead of a new one; it is closed with this object.

        Raises:
            OSError: the address cannot be listened on.
        """
        if listening is None:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, address = found[0]
            listening = socket.create_server(address, family=family, backlog=backlog)
        listening.setblocking(False)
        self.sockets = [listening]
        self._accept_when_readable()

    def close(self) -> None:
        """Free the port, and end the handshakes that are under way."""
        if self._retry is not None:
            self._retry.cancel()
        for each in self.sockets:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self.sockets = []
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing of it is left, after `close`."""
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    def _accept_when_readable(self) -> None:
        for each in self.sockets:
            asyncio.get_running_loop().add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        """Begin the handshakes of clients that wait; the loop calls again in its next turn if more do."""
        for _ in range(MAX_HANDSHAKES_PER_TURN):
            try:
                client, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no file is free for it, of which the listener's sweep warns
                asyncio.get_running_loop().remove_reader(listening)
                self._retry = self._clock.call_later(_ACCEPT_RETRY_MS, self._accept_when_readable)
                return
            client.setblocking(False)
            self._begin(client, address[0], f"{address[0]}:{address[1]}")

    def _begin(self, client: socket.socket, host: str, peer: str) -> None:
        refusal = self._may_enter(host, len(self._handshakes), self._of_host[host])
        if refusal is not None:
            client.close()
            self._refused(*refusal, peer)
            return
        self._of_host[host] += 1
        task = asyncio.create_task(self._shake_hands(client, peer), name=f"tls handshake {peer}")
        self._handshakes.add(task)
        task.add_done_callback(partial(self._ended, client, host))

    def _ended(self, client: socket.socket, host: str, task: asyncio.Task[None]) -> None:
        self._handshakes.discard(task)
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]
        if task.cancelled():  # it may not have begun, so that no transport closes the socket
            client.close()

    async def _shake_hands(self, client: socket.socket, peer: str) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                client,
                ssl=self._context(),
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            reason, detail = _why(error)
            self._refused(reason, detail, peer)


def _why(error: Exception) -> tuple[Refusal, str]:
    """Return the reason for which a handshake failed, as its client's owner can use it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refusal.TLS_HANDSHAKE_FAILED, f"{_REASONS['CERTIFICATE_VERIFY_FAILED']}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return Refusal.TLS_HANDSHAKE_FAILED, _REASONS.get(reason, f"{reason or error}")
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return Refusal.HANDSHAKE_TIMEOUT, "the TLS handshake took too long"
    return Refusal.TLS_HANDSHAKE_FAILED, "the client closed the connection during the TLS handshake"
