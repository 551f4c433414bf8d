"""A share partition under test: with a clock, a purgatory of its own, and a share coordinator in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.share.acknowledging import ShareAcknowledgementBatch
from purgatorio.broker.share.acquiring import AcquireLimits, AcquireMode, Offsets, ReadBatches
from purgatorio.broker.share.giving_up import DeadLetterCounts, GiveUpCause, RecordsOwner
from purgatorio.broker.share.holdings import Holdings, LockHolder
from purgatorio.broker.share.persister import Done, ReadDone, ShareState
from purgatorio.broker.share.services import ShareServices
from purgatorio.broker.share.share_metrics import ShareMetrics
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState, SharePartitionKey, StateBatch
from purgatorio.purgatory import ActionQueue, FinishedOperation, ParkedOperation, Purgatory, Timer

KEY = SharePartitionKey("app", b"t" * 16, 0)
TP = TopicPartition("orders", 0)
LETTERS = {
    RecordState.AVAILABLE: "a",
    RecordState.ACQUIRED: "q",
    RecordState.ACKNOWLEDGED: "k",
    RecordState.ARCHIVING: "g",
    RecordState.ARCHIVED: "x",
}


@dataclass
class Written:
    """One call of `Persister.write`."""

    start_offset: int
    delivery_complete_count: int
    batches: list[tuple[int, int, int, int]]
    epochs: tuple[int, int]
    done: Done


def stored(first_offset: int, last_offset: int, state: int, delivery_count: int) -> StateBatch:
    return StateBatch(
        first_offset=first_offset, last_offset=last_offset, delivery_state=state, delivery_count=delivery_count
    )


@dataclass
class FakePersister:
    """Keeps what it is told to write, and answers at once, or when the test says so."""

    state: ShareState = field(default_factory=lambda: ShareState(7, 2, 0))
    error: ErrorCode = ErrorCode.NONE
    waits: bool = False
    writes: list[Written] = field(default_factory=list)
    reads: list[tuple[int, ReadDone]] = field(default_factory=list)
    waiting: list[Written] = field(default_factory=list)

    def read(self, key: SharePartitionKey, *, leader_epoch: int, done: ReadDone) -> None:
        assert key == KEY
        self.reads.append((leader_epoch, done))
        if not self.waits:
            self.answer_read()

    def answer_read(self) -> None:
        done = self.reads[-1][1]
        done(self.error, None if self.error else self.state)

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Done,
    ) -> None:
        assert key == KEY
        rows = [(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches]
        write = Written(start_offset, delivery_complete_count, rows, (state_epoch, leader_epoch), done)
        self.writes.append(write)
        if self.waits:
            self.waiting.append(write)
        else:
            done(self.error)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest write that waits."""
        self.waiting.pop(0).done(error)

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Done) -> None:
        raise NotImplementedError

    def delete(self, key: SharePartitionKey, *, done: Done) -> None:
        raise NotImplementedError

    def summary(self, key: SharePartitionKey, *, leader_epoch: int = -1, done: ReadDone) -> None:
        raise NotImplementedError


class Letters:
    """Dead letters that the test counts."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self.given_up: list[tuple[int, int, int, GiveUpCause]] = []
        self.counts = DeadLetterCounts()

    def wanted(self, group_id: str) -> bool:
        assert group_id == KEY.group_id
        return self.on

    def give_up(
        self, owner: RecordsOwner, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause
    ) -> None:
        assert owner.key == KEY
        self.given_up.append((first_offset, last_offset, delivery_count, cause))


def ranges(*pairs: tuple[int, int]) -> tuple[Offsets, ...]:
    return tuple(Offsets(*pair) for pair in pairs)


class Shared:
    """A share partition with all that it needs; loaded unless the test says otherwise."""

    def __init__(
        self,
        *,
        start_offset: int = 0,
        batches: Sequence[StateBatch] = (),
        settings: ShareSettings | None = None,
        loaded: bool = True,
        letters: Letters | None = None,
    ) -> None:
        self.now_ms = 1_000
        self.finished: list[FinishedOperation] = []
        self.actions = ActionQueue()
        self.timer = Timer(lambda: self.now_ms)
        self.locks: Purgatory[Any] = Purgatory(
            "AcquisitionLock", self.timer, actions=self.actions, on_finished=self.finished.append
        )
        self.persister = FakePersister(ShareState(7, 2, start_offset, batches=tuple(batches)))
        self.changes = 0
        self.fenced: list[ErrorCode] = []
        self.settings = settings or ShareSettings()
        self.start: tuple[ErrorCode, int] = (ErrorCode.NONE, 40)
        self.letters = letters or Letters(on=False)
        self.services = ShareServices(
            persister=self.persister,
            locks=lambda: self.locks,
            settings=self._settings,
            changed=self._changed,
            fenced=self._fenced,
            dead_letters=self.letters,
        )
        self.metrics = ShareMetrics(BrokerMetrics(1), lambda: self.now_ms)
        self.holdings = Holdings(lambda: None)
        self.holders: dict[str, LockHolder] = {}
        self.partition = self.lead()
        if loaded:
            assert self.load() == [ErrorCode.NONE]
            self.changes = 0

    def lead(self, leader_epoch: int = 3) -> SharePartition:
        """Make the share partition of a leader."""
        return SharePartition(
            KEY,
            TP,
            leader_epoch,
            self.services,
            find_start=lambda done: done(*self.start),
            counts=self.metrics.partition(KEY.group_id, TP.topic),
        )

    def _settings(self, group_id: str) -> ShareSettings:
        assert group_id == KEY.group_id
        return self.settings

    def _changed(self, key: SharePartitionKey) -> None:
        assert key == KEY
        self.changes += 1

    def _fenced(self, key: SharePartitionKey, error: ErrorCode) -> None:
        assert key == KEY
        self.fenced.append(error)

    def load(self) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.partition.load(answers.append)
        return answers

    def acquire(
        self,
        *batches: tuple[int, int],
        member: str = "ada",
        at: int | None = None,
        most: int = 500,
        size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        undelivered: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, int, int]]:
        """Acquire of what was read at an offset, by default the next one to fetch."""
        offset = self.partition.next_fetch_offset() if at is None else at
        read = ReadBatches(offset, ranges(*batches), ranges(*undelivered))
        acquired = self.partition.acquire(self.holder(member), read, AcquireLimits(1_000_000, most, size, mode))
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]

    def ack(
        self, *batches: tuple[int, int, int | Sequence[int]], member: str = "ada", renews: bool = False
    ) -> list[ErrorCode]:
        """Acknowledge batches of first offset, last offset, and a type or several; return the answers so far."""
        answers: list[ErrorCode] = []
        made = [
            ShareAcknowledgementBatch(first, last, (types,) if isinstance(types, int) else tuple(types))
            for first, last, types in batches
        ]
        self.partition.acknowledge(member, made, renews=renews, done=answers.append)
        return answers

    def holder(self, member: str = "ada") -> LockHolder:
        """A member, whose connection it shares with the others."""
        return self.holders.setdefault(member, LockHolder(member, self.holdings))

    def release(self, member: str = "ada", most: int = 500) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.partition.release(self.holder(member), most, answers.append)
        return answers

    def advance(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        with self.actions:
            self.timer.advance(self.now_ms)

    def parked(self) -> list[ParkedOperation]:
        return self.locks.operations(10_000)

    def said(self) -> list[str]:
        """The locks, each with its key and what it waits for."""
        return [f"{', '.join(map(str, lock.keys))}: {in_words(lock.causes)}" for lock in self.parked()]

    @property
    def picture(self) -> str:
        """The records in flight by state and delivery count, such as "a0 q1 k1!"; "!": one that is being written."""
        return " ".join(
            f"{LETTERS[batch.state]}{batch.delivery_count}{'!' * (batch.target is not None)}"
            for batch in self.partition.in_flight
            for _ in range(batch.count)
        )

    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.finished]
