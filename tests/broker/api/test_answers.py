"""The rule for long answers: what is repeated is told once, in steps, and as much as there is room for."""

from __future__ import annotations

from purgatorio.broker.api.answers import BYTES_PER_COST, MAX_ANSWER_BYTES, NO_ROOM, EntryPieces, answer_each
from purgatorio.broker.time.long_work import SLICE
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from tests.broker.api.harness import context
from tests.broker.time.by_hand import HandListings
from tests.error_log import ErrorLog

SLICE_BYTES = SLICE * BYTES_PER_COST


class Answered:
    """An answer whose entries are names, or errors."""

    def __init__(self, *asked: str, pieces: int = 1, piece_bytes: int = 1, fails_at: str = "") -> None:
        self.told: list[str] = []
        self.answers: list[list[object]] = []
        self.listings = HandListings()

        def make(name: str) -> EntryPieces[object]:
            if name == fails_at:
                raise ValueError(name)
            self.told.append(name)
            for _ in range(pieces):
                yield piece_bytes
            return name

        ctx = context(ApiKey.DESCRIBE_GROUPS, 6)
        answer_each(self.listings, ctx, asked, make, lambda name, code: code, self.answers.append)


def test_what_is_repeated_is_answered_once() -> None:
    answered = Answered("a", "b", "a", "a", "b")
    assert answered.answers == [["a", "b"]]
    assert answered.told == ["a", "b"]


def test_nothing_is_asked_for() -> None:
    assert Answered().answers == [[]]


def test_a_long_answer_is_made_in_steps() -> None:
    answered = Answered("a", "b", pieces=4, piece_bytes=SLICE_BYTES // 2)
    assert not answered.answers
    assert len(list(answered.listings.steps())) >= 3
    assert answered.answers == [["a", "b"]]


def test_many_short_entries_are_made_in_steps() -> None:
    answered = Answered(*map(str, range(4_000)), pieces=0)
    steps = len(list(answered.listings.steps()))
    assert steps >= 4_000 * 400 // SLICE_BYTES - 1
    assert answered.answers == [list(map(str, range(4_000)))]


def test_what_has_no_room_is_refused_and_the_first_entry_is_told_whole() -> None:
    answered = Answered("a", "b", "c", pieces=3, piece_bytes=MAX_ANSWER_BYTES // 2)
    list(answered.listings.steps())
    assert answered.answers == [["a", NO_ROOM, NO_ROOM]]
    assert answered.told == ["a"]


def test_an_entry_that_cannot_be_told_fails_the_request_and_nothing_else(error_log: ErrorLog) -> None:
    answered = Answered("a", "b", fails_at="b")
    assert answered.answers == [[ErrorCode.UNKNOWN_SERVER_ERROR] * 2]
    error_log.expect("an answer in steps failed")
