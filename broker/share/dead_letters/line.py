"""The records of a share partition that are given up, one round of dead letters after the other."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Generator, Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.share.dead_letters.source import Content, NotCopied, read_records
from purgatorio.broker.share.giving_up import Archived, LetterOwner
from purgatorio.late import dataclass
from purgatorio.protocol.dead_letter import DeadLetterHeaders
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import HEADER_SIZE

MAX_LETTERS: Final = 250
"""The most dead letters of a round: 10 ms to make their batch and append it."""
MAX_BATCH_BYTES: Final = 1_048_576
"""The most bytes of a round's batch, unless one dead letter is larger; fewer if the topic takes fewer."""

_FIELD_BYTES: Final = 5
"""The most bytes of a length within a record."""
_RECORD_BYTES: Final = 40
"""The most bytes of a record beside its key, value and headers."""


class GivenUp:
    """Neighbouring records that are given up.

    Attributes:
        owner: the share partition that has given them up.
        next_offset: the first one that is not done with.
        message: why, as the dead letters' header tells it.
        tries: those that have failed in sequence.
    """

    __slots__ = ("delivery_count", "last_offset", "message", "next_offset", "owner", "tries")

    def __init__(
        self, owner: LetterOwner, first_offset: int, last_offset: int, delivery_count: int, message: str
    ) -> None:
        self.owner = owner
        self.next_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count
        self.message = message
        self.tries = 0

    @property
    def is_done(self) -> bool:
        """Whether none is left."""
        return self.next_offset > self.last_offset

    def rest(self, *, is_dead_letter: bool = False) -> Archived:
        """Return what is left, as it is archived."""
        return Archived(self.next_offset, self.last_offset, self.delivery_count, is_dead_letter)


class LineState(enum.Enum):
    """What a line does now."""

    READY = enum.auto()
    """Its next round can begin."""
    ON_ITS_WAY = enum.auto()
    """A round is being made or written, or its topic is being created."""
    WAITING = enum.auto()
    """It waits for the next try."""


class Line:
    """What is given up of one share partition, in the order in which it is.

    Attributes:
        tp: the partition by its name.
        state: None: nothing is left.
        waiting: what is not done with; at most what members could lock.
        max_letters: the most of its next round.
        target: where the last round went, or should have gone.
        asked: the leader to which it went, or NO_LEADER.
        why: why that failed.
    """

    __slots__ = ("asked", "group_id", "max_letters", "state", "target", "tp", "waiting", "why")

    def __init__(self, group_id: str, tp: TopicPartition) -> None:
        self.group_id = group_id
        self.tp = tp
        self.state: LineState | None = None
        self.waiting: deque[GivenUp] = deque()
        self.max_letters = MAX_LETTERS
        self.target = TopicPartition("", 0)
        self.asked = NO_LEADER
        self.why = ""

    def drop_done(self) -> None:
        """Forget what is done with."""
        while self.waiting and self.waiting[0].is_done:
            self.waiting.popleft()

    def drop_other_epochs(self, leader_epoch: int) -> None:
        """Forget what was given up in other leader epochs: the leader of this one reads the state, and goes on."""
        if any(each.owner.leader_epoch != leader_epoch for each in self.waiting):
            self.waiting = deque(each for each in self.waiting if each.owner.leader_epoch == leader_epoch)

    def leave_to(self, owner: LetterOwner) -> None:
        """Forget what other owners have given up: this one has read the state, and gives all of it up again."""
        self.waiting = deque(each for each in self.waiting if each.owner is owner)


class Piece(NamedTuple):
    """A part of what is given up, as a round covers it."""

    given_up: GivenUp
    archived: tuple[Archived, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """What is written at once.

    Attributes:
        records: the dead letters; none if there are no records at these offsets.
        pieces: what it covers, from the first offset of the line on that is not done with.
    """

    records: list[Record]
    pieces: list[Piece]

    def archived(self, *, written: bool) -> Iterable[tuple[LetterOwner, list[Archived]]]:
        """Return what it covers as it is archived, by owner.

        Args:
            written: whether its dead letters are written.
        """
        for _, pieces in groupby(self.pieces, key=lambda piece: id(piece.given_up.owner)):
            of_owner = list(pieces)
            ranges = [each for piece in of_owner for each in piece.archived]
            yield (
                of_owner[0].given_up.owner,
                [each._replace(is_dead_letter=written and each.is_dead_letter) for each in ranges],
            )

    def done(self) -> None:
        """Note that what it covers is done with."""
        for given_up, archived in self.pieces:
            given_up.next_offset = archived[-1].last_offset + 1


def make_round(
    line: Line, replica: Partition, *, copies: bool, max_bytes: int, now_ms: int, not_copied: NotCopied
) -> Generator[None, Any, Round]:
    """Make the next round of a line; yields between steps.

    Args:
        replica: the leader of the records.
        max_bytes: the largest record batch that the dead-letter topic takes.
        now_ms: the time of the dead letters.
        not_copied: as `read_records`.
    """
    asked: list[tuple[GivenUp, int]] = []
    left = line.max_letters
    for given_up in line.waiting:
        last_offset = min(given_up.last_offset, given_up.next_offset + left - 1)
        asked.append((given_up, last_offset))
        left -= last_offset - given_up.next_offset + 1
        if left <= 0:
            break
    offsets = {offset for each, last_offset in asked for offset in range(each.next_offset, last_offset + 1)}
    found = yield from read_records(replica, sorted(offsets), copies=copies, max_bytes=max_bytes, not_copied=not_copied)
    yield
    return _fitted(line, asked, found, min(max_bytes, MAX_BATCH_BYTES), now_ms)


def _fitted(
    line: Line, asked: list[tuple[GivenUp, int]], found: dict[int, Content], max_bytes: int, now_ms: int
) -> Round:
    """Return the round with the dead letters that fit into a batch, and at least one."""
    made = Round([], [])
    room = max_bytes - HEADER_SIZE
    for given_up, last_offset in asked:
        states: list[bool] = []
        for offset in range(given_up.next_offset, last_offset + 1):
            content = found.get(offset)
            if content is not None:
                record = _letter(line, given_up, offset, content, len(made.records), now_ms)
                size = _most_bytes(record)
                if size > room and made.records:
                    break
                room -= size
                made.records.append(record)
            states.append(content is not None)
        if states:
            made.pieces.append(Piece(given_up, _ranges(given_up, states)))
        if given_up.next_offset + len(states) <= last_offset:
            break
    return made


def _letter(line: Line, given_up: GivenUp, offset: int, content: Content, nth: int, now_ms: int) -> Record:
    topic, partition = line.tp
    headers = DeadLetterHeaders(
        topic, partition, offset, line.group_id, given_up.delivery_count, given_up.message
    ).encode()
    return Record(nth, now_ms, *content, headers)


def _most_bytes(record: Record) -> int:
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(value or b"") + 2 * _FIELD_BYTES for name, value in record.headers)


def _ranges(given_up: GivenUp, states: list[bool]) -> tuple[Archived, ...]:
    """Return neighbouring offsets of the same kind: whether they are dead letters."""
    made: list[Archived] = []
    offset = given_up.next_offset
    for is_dead_letter, alike in groupby(states):
        count = sum(1 for _ in alike)
        made.append(Archived(offset, offset + count - 1, given_up.delivery_count, is_dead_letter))
        offset += count
    return tuple(made)
