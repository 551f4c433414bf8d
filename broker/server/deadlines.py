"""The deadlines of one connection: by when a client must have sent or taken bytes. Knows no event loop.

The connection reports events with their times; the listener's sweep asks, every `sweep_interval_ms`, whether the client
is too late.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Final

from purgatorio.broker.server.limits import ConnectionLimits, Refusal

Overdue = tuple[Refusal, str]
"""Why a connection is closed, and the same in words with the limit."""
_NOT_KNOWN: Final = -1


class _Progress:
    """How many bytes a client has moved since when, while others wait for the memory that it holds."""

    __slots__ = ("_bytes", "_since_ms")

    def __init__(self) -> None:
        self._bytes = _NOT_KNOWN
        self._since_ms = 0

    def is_too_slow(self, now_ms: int, moved_bytes: int, limits: ConnectionLimits) -> bool:
        """Return whether the client has moved less than `shortage_progress_bytes` in `shortage_ms`."""
        if self._bytes == _NOT_KNOWN or abs(moved_bytes - self._bytes) >= limits.shortage_progress_bytes:
            self._bytes = moved_bytes
            self._since_ms = now_ms
        return now_ms - self._since_ms > limits.shortage_ms

    def forget(self) -> None:
        """Start anew at the next call: nothing is short, or the client cannot move bytes."""
        self._bytes = _NOT_KNOWN


class Deadlines:
    """The moments that one connection's deadlines run from, in the clock's monotonic milliseconds.

    Args:
        limits: how long each deadline is.
        now_ms: when the connection was opened.
        authenticates: a request is not enough for the first deadline: the client must authenticate.

    Attributes:
        opened_ms: when the connection was opened.
        closing_since_ms: when the connection began to close, which the client's last answers may hold up; None before.
    """

    __slots__ = (
        "_aborted",
        "_answers",
        "_authenticates",
        "_gone_since_ms",
        "_has_ended",
        "_has_requested",
        "_last_active_ms",
        "_limits",
        "_partial_since_ms",
        "_request",
        "_stall_since_ms",
        "_taken_bytes",
        "closing_since_ms",
        "opened_ms",
    )

    def __init__(self, limits: ConnectionLimits, now_ms: int, *, authenticates: bool = False) -> None:
        self._limits = limits
        self._authenticates = authenticates
        self.opened_ms = self._last_active_ms = self._partial_since_ms = self._stall_since_ms = now_ms
        self.closing_since_ms: int | None = None
        self._has_requested = False
        self._taken_bytes = _NOT_KNOWN
        self._request = _Progress()
        self._answers = _Progress()
        self._aborted = False
        self._gone_since_ms: int | None = None
        self._has_ended = False

    def received(self, now_ms: int, completed: bool, continued: bool) -> None:
        """Bytes came.

        Args:
            completed: they completed a request.
            continued: part of a request was held before they came.
        """
        self._last_active_ms = now_ms
        if completed:
            self._has_requested = not self._authenticates
            self._partial_since_ms = now_ms
            self._request.forget()  # what comes now is another request
        elif not continued:
            self._partial_since_ms = now_ms

    def authenticated(self) -> None:
        """The client has authenticated."""
        self._authenticates = False
        self._has_requested = True

    def reading_resumed(self, now_ms: int) -> None:
        """The connection reads again: the time in which it did not is not the client's fault."""
        self._last_active_ms = self._partial_since_ms = now_ms

    def writing_paused(self) -> None:
        """Answers back up, so the client must take some; the time counts from the next sweep."""
        self._taken_bytes = _NOT_KNOWN

    def client_gone(self, now_ms: int, *, waits: bool) -> bool:
        """The client has closed its end; return whether the connection is to be closed now.

        Args:
            waits: something that the client sent waits to be worked on, for which there are `partial_frame_ms`.
        """
        if self._gone_since_ms is None:
            self._gone_since_ms = now_ms
        return not waits or now_ms - self._gone_since_ms > self._limits.partial_frame_ms

    def client_ended(self, now_ms: int) -> None:
        """The client sends nothing more; from now on it counts as idle, though its requests be worked on."""
        self._has_ended = True
        self._last_active_ms = now_ms

    def closing(self, now_ms: int) -> None:
        """The connection closes once the client has taken the last answers."""
        if self.closing_since_ms is None:
            self.closing_since_ms = now_ms

    def aborted(self, now_ms: int) -> None:
        """The connection closes at once: nothing is expected of the client any more."""
        self.closing(now_ms)
        self._aborted = True

    def may_rest(self, now_ms: int) -> bool:
        """Whether a client with which nothing is under way has its time: it has requested something, and lately."""
        return (
            self._has_requested
            and self.closing_since_ms is None
            and now_ms - self._last_active_ms <= self._limits.idle_ms
        )

    def overdue(
        self,
        now_ms: int,
        *,
        busy: bool,
        partial_bytes: int,
        reading_paused: bool,
        writing_paused: bool,
        taken_bytes: int,
    ) -> Overdue | None:
        """Why the connection is to be aborted, or None if the client is in time.

        Args:
            busy: requests are in flight or wait.
            partial_bytes: bytes that have come of a request that is not complete.
            reading_paused: the connection does not read, so no byte can come.
            writing_paused: answers back up because the client does not take them.
            taken_bytes: bytes of answers that the client has taken so far; read only while `writing_paused`.
        """
        if self._aborted:
            return None
        limits = self._limits
        if self.closing_since_ms is not None:
            if now_ms - self.closing_since_ms > limits.write_stall_ms:
                return Refusal.LINGERING_CLOSE, f"its last answers were not taken within {limits.write_stall_ms} ms"
        elif writing_paused:
            return self._stalled(now_ms, taken_bytes)
        elif busy and not self._has_ended:
            self._last_active_ms = now_ms
        elif not self._has_requested:
            if now_ms - self.opened_ms > limits.handshake_ms:
                what = "not authenticated" if self._authenticates else "no request"
                return Refusal.HANDSHAKE_TIMEOUT, f"{what} within {limits.handshake_ms} ms after connecting"
        elif now_ms - self._last_active_ms > limits.idle_ms:
            return Refusal.IDLE, f"no request for {now_ms - self._last_active_ms} ms"
        if partial_bytes and not reading_paused and now_ms - self._partial_since_ms > limits.partial_frame_ms:
            detail = f"{partial_bytes} bytes of a request, but not all of it within {limits.partial_frame_ms} ms"
            return Refusal.PARTIAL_FRAME_TIMEOUT, detail
        return None

    def overdue_under_pressure(
        self, now_ms: int, *, partial_bytes: int | None, taken_bytes: int | None
    ) -> Overdue | None:
        """Return why to abort a connection that holds memory for which others wait, and hardly moves a byte; else None.

        Args:
            partial_bytes: bytes held of a request that is not complete; None if none are, if no other waits for the
                memory of requests, or if this connection does not read.
            taken_bytes: bytes of answers that the client has taken so far; None if it has taken all, or if the answers
                of all connections are within their bound.
        """
        limits = self._limits
        within = f"{limits.shortage_progress_bytes} bytes within {limits.shortage_ms} ms while memory is short"
        if self._aborted:
            return None
        if partial_bytes is None:
            self._request.forget()
        elif self._request.is_too_slow(now_ms, partial_bytes, limits):
            return Refusal.PARTIAL_FRAME_TIMEOUT, f"{partial_bytes} bytes of a request, but not {within}"
        if taken_bytes is None:
            self._answers.forget()
        elif self._answers.is_too_slow(now_ms, taken_bytes, limits):
            return Refusal.SLOW_READER, f"it has not taken {within}"
        return None

    def _stalled(self, now_ms: int, taken_bytes: int) -> Overdue | None:
        """Return why to abort a connection whose client has taken no byte for `write_stall_ms`, or None."""
        if taken_bytes != self._taken_bytes:
            self._taken_bytes = taken_bytes
            self._stall_since_ms = now_ms
        elif now_ms - self._stall_since_ms > self._limits.write_stall_ms:
            return Refusal.SLOW_READER, f"no byte of its answers taken for {self._limits.write_stall_ms} ms"
        return None
