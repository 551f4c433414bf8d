"""Each deadline of a connection: when it runs, from when, and when it does not."""

from __future__ import annotations

from purgatorio.broker.server.deadlines import Deadlines
from purgatorio.broker.server.limits import ConnectionLimits, Refusal

LIMITS = ConnectionLimits(handshake_ms=100, partial_frame_ms=200, write_stall_ms=300, idle_ms=1_000)
OPENED_MS = 5_000


def _opened() -> Deadlines:
    return Deadlines(LIMITS, OPENED_MS)


def _after_a_request() -> Deadlines:
    deadlines = _opened()
    deadlines.received(OPENED_MS, completed=True, continued=False)
    return deadlines


def _refusal(
    deadlines: Deadlines,
    after_ms: int,
    *,
    busy: bool = False,
    partial_bytes: int = 0,
    reading_paused: bool = False,
    taken_bytes: int | None = None,
) -> Refusal | None:
    """What a sweep finds so long after the connection was opened; writing is paused if `taken_bytes` is given."""
    overdue = deadlines.overdue(
        OPENED_MS + after_ms,
        busy=busy,
        partial_bytes=partial_bytes,
        reading_paused=reading_paused,
        writing_paused=taken_bytes is not None,
        taken_bytes=taken_bytes or 0,
    )
    return None if overdue is None else overdue[0]


def test_the_first_request_has_a_deadline() -> None:
    """Part of it is not enough."""
    deadlines = _opened()
    deadlines.received(OPENED_MS + 90, completed=False, continued=False)
    assert _refusal(deadlines, 100, partial_bytes=5) is None
    assert _refusal(deadlines, 101, partial_bytes=5) is Refusal.HANDSHAKE_TIMEOUT


def test_after_the_first_request_a_connection_may_be_idle_for_long() -> None:
    """But not for ever."""
    deadlines = _after_a_request()
    assert _refusal(deadlines, 1_000) is None
    assert _refusal(deadlines, 1_001) is Refusal.IDLE


def test_a_connection_with_requests_in_flight_is_not_idle() -> None:
    """A long poll; idleness begins with the last sweep that saw it."""
    deadlines = _after_a_request()
    assert _refusal(deadlines, 5_000, busy=True) is None
    assert _refusal(deadlines, 6_000) is None
    assert _refusal(deadlines, 6_001) is Refusal.IDLE


def test_a_request_must_be_complete_some_time_after_its_first_byte() -> None:
    """Further bytes do not move the deadline."""
    deadlines = _after_a_request()
    deadlines.received(OPENED_MS + 500, completed=False, continued=False)
    deadlines.received(OPENED_MS + 650, completed=False, continued=True)
    assert _refusal(deadlines, 700, partial_bytes=9) is None
    assert _refusal(deadlines, 701, partial_bytes=9) is Refusal.PARTIAL_FRAME_TIMEOUT
    assert _refusal(deadlines, 701, partial_bytes=9, busy=True) is Refusal.PARTIAL_FRAME_TIMEOUT


def test_a_chunk_that_completes_a_request_begins_the_time_of_the_next() -> None:
    """It may carry the first bytes of the next."""
    deadlines = _after_a_request()
    deadlines.received(OPENED_MS + 500, completed=False, continued=False)
    deadlines.received(OPENED_MS + 600, completed=True, continued=True)
    assert _refusal(deadlines, 800, partial_bytes=2) is None
    assert _refusal(deadlines, 801, partial_bytes=2) is Refusal.PARTIAL_FRAME_TIMEOUT


def test_no_time_for_a_request_runs_while_the_connection_does_not_read() -> None:
    """It runs anew when reading goes on."""
    deadlines = _after_a_request()
    deadlines.received(OPENED_MS + 10, completed=False, continued=False)
    assert _refusal(deadlines, 900, partial_bytes=2, reading_paused=True) is None
    deadlines.reading_resumed(OPENED_MS + 900)
    assert _refusal(deadlines, 1_100, partial_bytes=2) is None
    assert _refusal(deadlines, 1_101, partial_bytes=2) is Refusal.PARTIAL_FRAME_TIMEOUT


def test_a_slow_client_is_refused_only_when_it_takes_nothing_at_all() -> None:
    """One byte in time is enough."""
    deadlines = _after_a_request()
    deadlines.writing_paused()
    assert _refusal(deadlines, 250, taken_bytes=0) is None
    assert _refusal(deadlines, 550, taken_bytes=0) is None
    assert _refusal(deadlines, 551, taken_bytes=1) is None
    assert _refusal(deadlines, 851, taken_bytes=1) is None
    assert _refusal(deadlines, 852, taken_bytes=1) is Refusal.SLOW_READER


def test_each_pause_of_writing_has_a_time_of_its_own() -> None:
    """Although the client has taken as many bytes as when it was slow before."""
    deadlines = _after_a_request()
    deadlines.writing_paused()
    assert _refusal(deadlines, 100, taken_bytes=7) is None
    deadlines.writing_paused()
    assert _refusal(deadlines, 900, taken_bytes=7) is None
    assert _refusal(deadlines, 1_201, taken_bytes=7) is Refusal.SLOW_READER


def test_a_closing_connection_must_come_to_its_end() -> None:
    """The first moment counts, and no other deadline but that of a partial request."""
    deadlines = _opened()
    deadlines.closing(OPENED_MS + 50)
    deadlines.closing(OPENED_MS + 200)
    assert deadlines.closing_since_ms == OPENED_MS + 50
    assert _refusal(deadlines, 350, taken_bytes=0) is None
    assert _refusal(deadlines, 351, taken_bytes=0) is Refusal.LINGERING_CLOSE


def test_an_aborted_connection_has_no_deadline() -> None:
    """A clock that is moved far at once lets sweeps run before the connection is gone."""
    deadlines = _opened()
    deadlines.aborted(OPENED_MS)
    assert deadlines.closing_since_ms == OPENED_MS
    assert _refusal(deadlines, 10_000, partial_bytes=3) is None


def test_a_refusal_names_the_limit() -> None:
    """The log line is then enough to know which setting to change."""
    deadlines = _opened()
    overdue = deadlines.overdue(
        OPENED_MS + 101, busy=False, partial_bytes=0, reading_paused=False, writing_paused=False, taken_bytes=0
    )
    assert overdue == (Refusal.HANDSHAKE_TIMEOUT, "no request within 100 ms after connecting")


def _slow(deadlines: Deadlines, after_ms: int, **held: int | None) -> Refusal | None:
    """What a sweep finds while others wait for memory."""
    overdue = deadlines.overdue_under_pressure(
        OPENED_MS + after_ms, partial_bytes=held.get("partial_bytes"), taken_bytes=held.get("taken_bytes")
    )
    return None if overdue is None else overdue[0]


STEP_BYTES = LIMITS.shortage_progress_bytes
AT_ONCE_MS, IN_TIME_MS, LATE_MS = 0, LIMITS.shortage_ms, LIMITS.shortage_ms + 1


def test_a_request_that_trickles_in_while_others_wait_for_its_memory_is_refused() -> None:
    deadlines = _after_a_request()
    assert _slow(deadlines, AT_ONCE_MS, partial_bytes=1_000) is None
    assert _slow(deadlines, IN_TIME_MS, partial_bytes=1_999) is None
    assert _slow(deadlines, LATE_MS, partial_bytes=2_000) is Refusal.PARTIAL_FRAME_TIMEOUT


def test_a_request_that_grows_is_not_refused_while_others_wait() -> None:
    deadlines = _after_a_request()
    for step in range(20):
        assert _slow(deadlines, step * LIMITS.shortage_ms, partial_bytes=1 + step * STEP_BYTES) is None


def test_a_client_that_hardly_takes_its_answers_is_refused_while_answers_fill_the_memory() -> None:
    deadlines = _after_a_request()
    assert _slow(deadlines, AT_ONCE_MS, taken_bytes=0) is None
    assert _slow(deadlines, LATE_MS, taken_bytes=STEP_BYTES) is None
    assert _slow(deadlines, LATE_MS + IN_TIME_MS, taken_bytes=2 * STEP_BYTES - 1) is None
    assert _slow(deadlines, LATE_MS + LATE_MS, taken_bytes=2 * STEP_BYTES - 1) is Refusal.SLOW_READER


def test_the_time_of_a_shortage_begins_anew_with_each_shortage() -> None:
    deadlines = _after_a_request()
    assert _slow(deadlines, AT_ONCE_MS, partial_bytes=1_000, taken_bytes=0) is None
    assert _slow(deadlines, IN_TIME_MS) is None
    assert _slow(deadlines, LATE_MS, partial_bytes=1_000, taken_bytes=0) is None
    assert _slow(deadlines, 2 * IN_TIME_MS, partial_bytes=1_000, taken_bytes=0) is None


def test_each_request_has_the_time_of_a_shortage_for_itself() -> None:
    """A client that sends one small request after the other may hold a part of one at every sweep."""
    deadlines = _after_a_request()
    for sweep in range(10):
        now_ms = sweep * (LIMITS.shortage_ms - 1)
        deadlines.received(OPENED_MS + now_ms, completed=True, continued=True)
        assert _slow(deadlines, now_ms, partial_bytes=100) is None
