"""The records of a share partition that are given up, one batch of dead letters after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple

from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.broker_calls import Call, CallKind
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.share.dead_letters.source import Content, FromTier, NotCopied, read_records
from purgatorio.broker.share.giving_up import Archived, RecordsOwner
from purgatorio.late import dataclass
from purgatorio.protocol.dead_letter import DeadLetterHeaders
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import HEADER_SIZE
from purgatorio.protocol.share_state import SharePartitionKey

MAX_RECORDS: Final = 250
"""The most dead letters of a batch: 10 ms to make their batch and append it."""
MAX_BATCH_BYTES: Final = 1_048_576
"""The most bytes of a batch, unless one dead letter is larger; fewer if the topic takes fewer."""

_FIELD_BYTES: Final = 5
"""The most bytes of a length within a record."""
_RECORD_BYTES: Final = 40
"""The most bytes of a record beside its key, value and headers."""


class GivenUp:
    """Neighbouring records that are given up.

    Attributes:
        owner: the share partition that has given them up.
        next_offset: the first one that is not done with.
        message: the reason, as in the dead letters' header.
        tries: those that have failed in sequence.
    """

    __slots__ = ("delivery_count", "last_offset", "message", "next_offset", "owner", "tries")

    def __init__(
        self, owner: RecordsOwner, first_offset: int, last_offset: int, delivery_count: int, message: str
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


class BacklogKey(NamedTuple):
    """The watch key of dead letters: where their records are."""

    group_id: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{shortened(self.group_id)}: {self.topic}-{self.partition}"


class Backlog(Call):
    """The records that a share partition has given up, in that order: a call that writes one batch after another.

    Attributes:
        tp: the partition of the dead-letter topic to which the last batch went, or should have gone.
        key: the share partition.
        source: its partition by name.
        waiting: the records that are not done with; at most as many as members could lock.
        max_records: the most of its next batch.
        made: the batch that is being written, with its bytes.
    """

    __slots__ = ("batch", "key", "made", "max_records", "source", "waiting")

    def __init__(self, kind: CallKind[Backlog], key: SharePartitionKey, source: TopicPartition) -> None:
        super().__init__(kind, TopicPartition("", 0), key)
        self.key = key
        self.source = source
        self.waiting: deque[GivenUp] = deque()
        self.max_records = MAX_RECORDS
        self.made: DeadLetterBatch | None = None
        self.batch = b""

    def drop_done(self) -> None:
        """Forget what is done with."""
        while self.waiting and self.waiting[0].is_done:
            self.waiting.popleft()

    def drop_other_epochs(self, leader_epoch: int) -> None:
        """Forget what was given up in other leader epochs: the leader of this one reads the state, and goes on."""
        if any(each.owner.leader_epoch != leader_epoch for each in self.waiting):
            self.waiting = deque(each for each in self.waiting if each.owner.leader_epoch == leader_epoch)

    def leave_to(self, owner: RecordsOwner) -> None:
        """Forget what other owners have given up: this one has read the state, and gives all of it up again."""
        self.waiting = deque(each for each in self.waiting if each.owner is owner)


class Piece(NamedTuple):
    """A part of what is given up, as a batch covers it."""

    given_up: GivenUp
    archived: tuple[Archived, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterBatch:
    """Dead letters that are written at once.

    Attributes:
        records: the dead letters; none if there are no records at these offsets.
        pieces: the records that it covers, from the backlog's first offset on that is not done with.
    """

    records: list[Record]
    pieces: list[Piece]

    def archived(self, *, written: bool) -> Iterable[tuple[RecordsOwner, list[Archived]]]:
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


def make_batch(
    backlog: Backlog,
    replica: Partition,
    *,
    copies: bool,
    max_bytes: int,
    now_ms: int,
    not_copied: NotCopied,
    from_tier: FromTier,
) -> Generator[int, Any, DeadLetterBatch]:
    """Make the next batch of a backlog; yields between steps. It covers nothing if the tier is to be read first.

    Args:
        replica: the leader of the records.
        max_bytes: the largest record batch that the dead-letter topic takes.
        now_ms: the time of the dead letters.
        not_copied, from_tier: as `read_records`.
    """
    asked: list[tuple[GivenUp, int]] = []
    left = backlog.max_records
    for given_up in backlog.waiting:
        is_in_tier = given_up.next_offset < replica.log.local_start_offset
        if is_in_tier and asked:
            break  # one part of the tier at a time, so that the cache need not have more
        last_offset = min(given_up.last_offset, given_up.next_offset + left - 1)
        asked.append((given_up, last_offset))
        left -= last_offset - given_up.next_offset + 1
        if left <= 0 or is_in_tier:
            break
    offsets = sorted({offset for each, last_offset in asked for offset in range(each.next_offset, last_offset + 1)})
    found, known = yield from read_records(
        replica, offsets, copies=copies, max_bytes=max_bytes, not_copied=not_copied, from_tier=from_tier
    )
    yield 0
    if known < len(offsets):  # of a single range, whose rest is still to be read
        asked = [(asked[0][0], offsets[known] - 1)] if known else []
    return _fitted(backlog, asked, found, min(max_bytes, MAX_BATCH_BYTES), now_ms)


def _fitted(
    backlog: Backlog, asked: list[tuple[GivenUp, int]], found: dict[int, Content], max_bytes: int, now_ms: int
) -> DeadLetterBatch:
    """Return the batch with the dead letters that fit into a batch, and at least one."""
    made = DeadLetterBatch([], [])
    room = max_bytes - HEADER_SIZE
    for given_up, last_offset in asked:
        states: list[bool] = []
        for offset in range(given_up.next_offset, last_offset + 1):
            content = found.get(offset)
            if content is not None:
                record = _record(backlog, given_up, offset, content, len(made.records), now_ms)
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


def _record(backlog: Backlog, given_up: GivenUp, offset: int, content: Content, nth: int, now_ms: int) -> Record:
    topic, partition = backlog.source
    headers = DeadLetterHeaders(
        topic, partition, offset, backlog.key.group_id, given_up.delivery_count, given_up.message
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
