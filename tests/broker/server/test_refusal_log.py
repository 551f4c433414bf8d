"""Refusals are logged, but a client can neither fill the log with them nor write long lines."""

from __future__ import annotations

import pytest

from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.refusal_log import RefusalLog
from purgatorio.logger import LINES_PER_PERIOD, MAX_TEXT_CHARS, PERIOD_MS
from purgatorio.purgatory.clock import ManualClock
from tests.logs import capture_logs


@pytest.fixture
def refusals(clock: ManualClock) -> RefusalLog:
    return RefusalLog("PLAINTEXT", clock)


def refuse(refusals: RefusalLog, reason: Refusal = Refusal.BAD_FRAME, *, times: int = 1, client_id: str = "c") -> None:
    for _ in range(times):
        refusals.refused(reason, "detail", peer="192.0.2.7:1", client_id=client_id)


def test_a_flood_of_bad_requests_makes_few_lines(refusals: RefusalLog, clock: ManualClock) -> None:
    with capture_logs() as logs:
        refuse(refusals, times=18_515)
    assert len(logs) == LINES_PER_PERIOD
    clock.advance_ms(PERIOD_MS)
    with capture_logs() as logs:
        refuse(refusals, times=2)
    assert [line.get("lines_left_out") for line in logs] == [18_515 - LINES_PER_PERIOD, None]


def test_each_reason_has_lines_of_its_own(refusals: RefusalLog) -> None:
    refuse(refusals, Refusal.UNSUPPORTED_API, times=1_000)
    with capture_logs() as logs:
        refuse(refusals, Refusal.TLS_ON_PLAIN_LISTENER)
    assert [line["reason"] for line in logs] == ["tls_on_plain_listener"]


def test_what_a_client_wrote_is_cut(refusals: RefusalLog) -> None:
    with capture_logs() as logs:
        refusals.refused(Refusal.BAD_FRAME, "d" * 32_000, peer="192.0.2.7:1", client_id="c" * 32_000)
    (line,) = logs
    assert line["client_id"] == "c" * MAX_TEXT_CHARS + "… (32000 characters)"
    assert len(line["detail"]) < MAX_TEXT_CHARS + 30


def test_a_short_text_and_no_client_id_stay_as_they_are(refusals: RefusalLog) -> None:
    with capture_logs() as logs:
        refusals.refused(Refusal.BAD_FRAME, "why", peer="192.0.2.7:1", client_id=None, api="FETCH")
    (line,) = logs
    assert (line["detail"], line["client_id"], line["api"]) == ("why", None, "FETCH")


def test_the_end_of_an_idle_connection_is_no_refusal(refusals: RefusalLog) -> None:
    with capture_logs() as logs:
        refusals.refused(Refusal.IDLE, "no request for 600300 ms", peer="192.0.2.7:1", client_id="c")
    (line,) = logs
    assert (line["event"], line["log_level"], line["detail"]) == (
        "idle connection closed",
        "debug",
        "no request for 600300 ms",
    )
