"""The session of a member: heartbeats move its deadline, and it ends once."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat, MemberKey
from tests.broker.group.harness import GroupHarness


class Session:
    def __init__(self) -> None:
        self.broker = GroupHarness()
        self.purgatory = self.broker.heartbeat_purgatory
        self.expired = 0
        self.is_waiting = False
        self.heartbeat = DelayedHeartbeat(
            self.purgatory,
            MemberKey("billing", "app-2"),
            1_000,
            expired=self._expired,
            counts_as_alive=lambda: self.is_waiting,
        ).start("app")

    def _expired(self) -> None:
        self.expired += 1


@pytest.fixture
def session() -> Session:
    return Session()


def test_without_a_heartbeat_it_expires_once(session: Session) -> None:
    session.broker.advance_ms(999)
    assert session.expired == 0
    session.broker.advance_ms(5_000)
    assert session.expired == 1
    assert session.purgatory.num_delayed == 0


def test_a_heartbeat_gives_the_session_timeout_that_holds_now(session: Session) -> None:
    session.broker.advance_ms(900)
    session.heartbeat.session_timeout_ms = 3_000
    session.heartbeat.beat()
    session.broker.advance_ms(2_999)
    assert session.expired == 0
    session.broker.advance_ms(2)
    assert session.expired == 1


def test_it_goes_on_while_the_member_waits_for_an_answer(session: Session) -> None:
    session.is_waiting = True
    session.broker.advance_ms(1_001)
    assert (session.expired, session.purgatory.num_delayed) == (0, 1)
    session.is_waiting = False
    session.broker.advance_ms(1_001)
    assert session.expired == 1


def test_after_its_end_nothing_expires_and_a_late_heartbeat_does_nothing(session: Session) -> None:
    session.heartbeat.end()
    session.heartbeat.beat()
    session.broker.advance_ms(5_000)
    assert session.expired == 0
    assert session.purgatory.num_delayed == session.purgatory.watched == 0


def test_at_the_end_of_the_broker_no_session_expires(session: Session) -> None:
    session.purgatory.shutdown()
    assert session.expired == 0


def test_observers_see_whose_heartbeat_is_missing(session: Session) -> None:
    (parked,) = session.purgatory.operations()
    assert (parked.client, [str(key) for key in parked.keys]) == ("app", ["billing: app-2"])
    assert in_words(parked.causes) == "no heartbeat of member app-2 of billing yet"
    session.broker.advance_ms(1_001)
    (finished,) = session.broker.finished
    assert (finished.outcome, finished.held_by) == ("expired", ("app-2",))
