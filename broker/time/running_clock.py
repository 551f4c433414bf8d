"""A clock without the times in which this process's event loop stood still."""

from __future__ import annotations

import asyncio
from typing import Final

from purgatorio.purgatory.clock import Clock


class RunningClock:
    """The time in which this process ran: another clock's, without the times in which the event loop did not get on.

    The brokers of one process share its event loop. While that loop stands still (SIGSTOP, a suspended laptop) no
    broker can send a heartbeat. While it is slow (a busy machine, callbacks that compute for long) it makes few turns,
    and a heartbeat needs several: in one it is sent, in one it reaches the store, in one its answer comes. A broker
    must not be judged by time in which it had no turn. So leases, the lag of replicas, and time limits of requests
    between brokers are reckoned on this clock. A broker that hangs or dies alone, while the others
    run, is not excused by it: while turns are short, this clock goes as the other.

    `run` has to run. From one of its beats to the next the event loop makes more than `TURNS_PER_BEAT` turns, and
    `now_ms` advances by `MAX_GAP_MS` at most; the rest of a longer gap never happened. Only `now_ms` differs from the
    other clock; waits are that clock's.

    This keeps leases of four gaps or more: a heartbeat is answered in the third turn after its timer rang, and in so
    few turns there is one beat at most. So from the sending of a heartbeat until the next one is answered, `now_ms`
    advances by the heartbeat interval and two gaps at most.

    Clients' leases (sessions of members, open transactions) last seconds, not 400 ms, and so many turns that slowness
    alone does not end one. Their clock leaves out standstills only (`MAX_GAP_OF_CLIENTS_MS`), so that a session of 5 s
    takes 5 s on a busy machine, too.

    Args:
        clock: the clock whose standstills are left out.
        max_gap_ms: by how much time advances at most from one beat to the next.
    """

    BEAT_MS: Final = 50
    MAX_GAP_MS: Final = 100
    """Well above a beat, so that a loop in order loses no time; a quarter of the default session timeout."""
    MAX_GAP_OF_CLIENTS_MS: Final = 1_000
    """Turns of 190 ms lose no time. A session of 6 s has six beats, which are 24 turns; a heartbeat needs two."""
    TURNS_PER_BEAT: Final = 4
    """More than a heartbeat needs after its timer rang."""

    def __init__(self, clock: Clock, max_gap_ms: int = MAX_GAP_MS) -> None:
        self._clock = clock
        self._clock_now_ms = clock.now_ms
        self._max_gap_ms = max_gap_ms
        self._latest_ms = clock.now_ms() + max_gap_ms
        self._stood_still_ms = 0
        self.now_seconds = clock.now_seconds
        self.wall_ms = clock.wall_ms
        self.sleep = clock.sleep
        self.call_later = clock.call_later

    @property
    def stood_still_ms(self) -> int:
        """The time that was left out so far."""
        return self._stood_still_ms

    def now_ms(self) -> int:
        """Monotonic milliseconds in which the event loop ran."""
        now_ms, latest_ms = self._clock_now_ms(), self._latest_ms
        return (now_ms if now_ms < latest_ms else latest_ms) - self._stood_still_ms

    def beat(self) -> None:
        """Note that the event loop has made enough turns for a heartbeat."""
        now_ms = self._clock.now_ms()
        self._stood_still_ms += max(0, now_ms - self._latest_ms)
        self._latest_ms = now_ms + self._max_gap_ms

    async def run(self, *others: RunningClock) -> None:
        """Beat until cancelled, and have other clocks beat at the same times."""
        clocks = (self, *others)
        while True:
            for each in clocks:
                each.beat()
            await self._clock.sleep(self.BEAT_MS)
            for _ in range(self.TURNS_PER_BEAT):
                await asyncio.sleep(0)
