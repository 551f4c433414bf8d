"""What a model of a share partition knows: each record by itself, and what the share coordinator has stored of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.share.persister import ShareState
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import Written, stored

A, Q, K, X = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
NONE, BAD_REQUEST, BAD_STATE = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE


@dataclass
class Record:
    """What is known of one record; those of a hole are archived and were never delivered."""

    state: RecordState
    deliveries: int
    owner: str = ""
    deadline_ms: int = 0
    target: RecordState | None = None
    ran_out: bool = False

    @property
    def is_hole(self) -> bool:
        return self.state is X and self.deliveries == 0

    @property
    def is_free(self) -> bool:
        return self.state is A

    def settle(self, state: RecordState) -> None:
        self.state, self.target, self.owner, self.ran_out = state, None, "", False

    def shown(self) -> tuple[Any, ...]:
        return self.state, self.deliveries, self.owner, self.target


@dataclass
class Coordinator:
    """The share coordinator: what is stored, by offset."""

    start_offset: int = 0
    records: dict[int, tuple[int, int]] = field(default_factory=dict)

    def write(self, write: Written) -> None:
        self.start_offset = max(self.start_offset, write.start_offset)
        for first, last, state, deliveries in write.batches:
            for offset in range(first, last + 1):
                known = self.records.get(offset, (-1, -1))
                self.records[offset] = max(known, (deliveries, state))
        for offset in [each for each in self.records if each < self.start_offset]:
            del self.records[offset]

    def state(self) -> ShareState:
        batches = [stored(offset, offset, state, count) for offset, (count, state) in sorted(self.records.items())]
        return ShareState(7, 2, self.start_offset, batches=tuple(batches))


class RecordList:
    """The records from the start offset to the end offset, one by one.

    Attributes:
        limit: how often a record is delivered at most.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.records: dict[int, Record] = {}
        self.start = 0
        self.end = -1

    def move_start(self, offset: int) -> None:
        """Forget records below an offset, and leading ones that are complete."""
        self.start = max(self.start, offset)
        for below in [each for each in self.records if each < self.start]:
            del self.records[below]
        while self.start <= self.end and self.is_complete(self.records[self.start]):
            del self.records[self.start]
            self.start += 1

    @staticmethod
    def is_complete(record: Record) -> bool:
        """Whether nothing can become of a record any more."""
        return record.state in (K, X) and record.target is None

    def take_out(self, absent: set[int]) -> None:
        """Archive available records that no member gets, or that were delivered too often by now."""
        for offset, record in self.records.items():
            if offset in absent and record.is_free:
                record.settle(X)

    def deliveries(self, offset: int) -> int:
        """How often a record was delivered; 0 behind the end."""
        return self.records[offset].deliveries if offset <= self.end else 0

    def deliverable(self, read: list[tuple[int, int]], absent: set[int], room: int) -> list[int]:
        """The offsets that a fetch with the highest limits might acquire of what was read."""
        found = []
        for offset in range(max(self.start, read[0][0]), read[-1][1] + 1):
            if offset <= self.end:
                record = self.records[offset]
                if record.is_free and record.deliveries < self.limit:
                    found.append(offset)
            elif room > 0 and offset not in absent:
                found.append(offset)
        return found

    def is_past_limit(self) -> bool:
        """Whether the limit was lowered below the deliveries of a record that is available."""
        return any(each.is_free and each.deliveries >= self.limit for each in self.records.values())

    def held(self) -> list[int]:
        """The offsets of which members may decide."""
        return [offset for offset, each in self.records.items() if each.state is Q and each.target is None]

    @staticmethod
    def is_held(record: Record, member: str) -> bool:
        """Whether a member may decide about a record."""
        return record.state is Q and record.target is None and record.owner == member

    def target(self, record: Record, kind: int) -> RecordState:
        """What becomes of a record of which a member says this."""
        if kind == 2:
            return A if record.deliveries < self.limit else X
        return {0: X, 1: K, 3: X}[kind]

    def expected_error(self, member: str, said: list[tuple[int, int, tuple[int, ...]]]) -> ErrorCode:
        """The answer to a member's acknowledgement, if it can be written."""
        previous = -1
        for first, last, _ in said:
            if first < previous:
                return BAD_REQUEST
            previous = last
        previous = -1
        for first, last, _ in said:
            if last < self.start:
                continue
            if self.end < self.start or first == previous:
                return BAD_STATE
            if last > self.end:
                return BAD_REQUEST
            for offset in range(max(first, self.start), last + 1):
                record = self.records[offset]
                if not record.is_hole and not self.is_held(record, member):
                    return BAD_STATE
            previous = last
        return NONE


def offsets_of(batch: Any) -> range:
    return range(batch.first_offset, batch.last_offset + 1)


def kinds(said: list[tuple[int, int, tuple[int, ...]]]) -> Iterator[tuple[int, int]]:
    for first, last, types in said:
        for offset in range(first, last + 1):
            yield offset, types[0] if len(types) == 1 else types[offset - first]
