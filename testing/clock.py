"""`KafkaClock`: the time of a cluster's brokers, moved by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from purgatorio.testing.loop_thread import LoopThread

if TYPE_CHECKING:
    from purgatorio.admin.operations.declare import Answer, Operation
    from purgatorio.testing.backend import Backend
    from purgatorio.testing.values import Advanced

ADVANCE_TIMEOUT_SECONDS: Final = 60.0
"""The longest wait for a move; a quarter of an hour takes a second."""


class KafkaClock:
    """The brokers' clock: it goes as the machine's does, and jumps forward when a test moves it.

    Only brokers live by it: parked requests, sessions, transactions, leases, replica lag, retention, the timestamps of
    LogAppendTime, idle connections. *A client's own timers are out of its reach*: no client gives up, retries,
    heartbeats or refreshes metadata because of it. Lower their settings to see that soon: in aiokafka
    `request_timeout_ms` and `retry_backoff_ms`, in librdkafka `message.timeout.ms` and `socket.timeout.ms`, in Java
    `delivery.timeout.ms` and `request.timeout.ms`. So a producer whose request has timed out on the broker sends it
    again, and its `send` stays open until the producer's own timeout.
    """

    def __init__(self, thread: LoopThread, backend: Backend) -> None:
        self._thread = thread
        self._backend = backend

    def advance(self, seconds: float, *, sessions: bool = False) -> Advanced:
        """Move the brokers' clock forward; return what ended by it, and print it if a test fails or runs with -s.

        Brokers live through the time in steps: they keep their leases, and followers stay in sync unless they are held.
        Of more than 15 minutes, the brokers live through the last 15; the rest is a jump, which ends waits and lets
        records grow old, and by which no broker is fenced. Wall time moves too: clients stamp records with the
        machine's time, so after seven days even a fresh record is too old for a retention of seven days.

        Args:
            seconds: how far.
            sessions: whether the time counts for members of consumer groups as well. Real clients cannot send
                heartbeats at that pace: all whose session or rebalance timeout is shorter are removed from their
                groups. For one member's session use `Kafka.expire_member`.

        Raises:
            ValueError: `seconds` is negative.
        """
        from purgatorio.testing.controls import Controls

        moved = Controls(self._backend).advance(seconds, sessions=sessions)
        advanced = self._thread.run(moved, f"advance the clock by {seconds} s", ADVANCE_TIMEOUT_SECONDS)
        print(advanced)
        return advanced

    def now(self) -> float:
        """Return the brokers' time: seconds since 1970-01-01 UTC."""
        from purgatorio.admin.operations.clock import ShowClock

        return float(self._do(ShowClock(), "read the clock")["wall_ms"]) / 1000

    def freeze(self) -> None:
        """Stop the brokers' time until `unfreeze`; only `advance` moves it.

        Requests are answered as before, but no deadline comes, no broker is fenced, and a killed broker stays leader.
        """
        from purgatorio.admin.operations.clock import FreezeClock

        self._do(FreezeClock(), "freeze the clock")

    def unfreeze(self) -> None:
        """Let the brokers' time go on from where it stood."""
        from purgatorio.admin.operations.clock import UnfreezeClock

        self._do(UnfreezeClock(), "unfreeze the clock")

    def _do(self, operation: Operation, doing: str) -> Answer:
        return self._thread.run(self._backend.ask(operation), doing)
