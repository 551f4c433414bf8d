"""The share partitions of broker 1, over the replicas of `tests.broker.replica.harness`, and a persister in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from purgatorio.broker.coordinator.share_settings import OffsetReset, ResetTo, ShareGroupSettings, ShareSettings
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.routing.request import Session
from purgatorio.broker.share.acknowledging import ShareAcknowledgementBatch
from purgatorio.broker.share.acquiring import AcquireLimits, AcquireMode
from purgatorio.broker.share.giving_up import NO_DEAD_LETTERS
from purgatorio.broker.share.led_shares import LedShares
from purgatorio.broker.share.persister import Done, ReadDone, ShareState
from purgatorio.broker.share.services import ShareLeaderServices
from purgatorio.broker.share.share_fetches import (
    Results,
    ShareClient,
    ShareRequestError,
    ShareResult,
    ShareWants,
    named,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey, StateBatch
from purgatorio.purgatory import Purgatory, Timer
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.broker.tier.stores import TestStore

GROUP = "jobs"


class MemoryPersister:
    """Keeps what is written; answers at once, or when `answer` is called if it is `held`.

    Attributes:
        error: what every request gets in place of an answer.
        waiting: the answers that are held.
    """

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.writes: list[tuple[SharePartitionKey, list[tuple[int, int, int, int]]]] = []
        self.held = False
        self.error = ErrorCode.NONE
        self.waiting: list[Callable[[], None]] = []

    def answer(self) -> None:
        """Answer what waits."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()

    def _later(self, done: Callable[[], None]) -> None:
        if self.held:
            self.waiting.append(done)
        else:
            done()

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Done) -> None:
        self.states[key] = ShareState(state_epoch, -1, start_offset)
        self._later(lambda: done(self.error))

    def read(self, key: SharePartitionKey, *, leader_epoch: int, done: ReadDone) -> None:
        def answer() -> None:
            if self.error:
                done(self.error, None)
            else:
                done(ErrorCode.NONE, self.states.setdefault(key, ShareState(0, leader_epoch, -1)))

        self._later(answer)

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
        written = [(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches]
        self.writes.append((key, written))
        self._later(lambda: done(self.error))

    def delete(self, key: SharePartitionKey, *, done: Done) -> None:
        self.states.pop(key, None)
        self._later(lambda: done(self.error))

    def summary(self, key: SharePartitionKey, *, leader_epoch: int = -1, done: ReadDone) -> None:
        self._later(lambda: done(self.error, self.states.get(key)))


@dataclass
class Asked:
    """A share request, and its answer once it has one."""

    answers: list[tuple[Results, ShareRequestError | None]] = field(default_factory=list)

    def __call__(self, results: Results, error: ShareRequestError | None) -> None:
        self.answers.append((results, error))

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    @property
    def results(self) -> list[ShareResult]:
        ((results, error),) = self.answers
        assert error is None, error
        return list(results.values())

    @property
    def refusal(self) -> ErrorCode:
        ((_, error),) = self.answers
        assert error is not None
        return error.error_code

    @property
    def acquired(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and delivery count, over all partitions."""
        return [tuple(each) for result in self.results if result.acquired for each in result.acquired.records]

    @property
    def errors(self) -> list[tuple[ErrorCode, ErrorCode]]:
        """The errors of fetching and of acknowledging."""
        none = ErrorCode.NONE
        return [
            (
                each.error.error_code if each.error else none,
                each.acknowledge_error.error_code if each.acknowledge_error else none,
            )
            for each in self.results
        ]


class Member:
    """A member of the group, with a connection of its own."""

    def __init__(self, house: ShareHarness, member_id: str) -> None:
        self.house = house
        self.connection = Session(connection_id=member_id, listener="PLAINTEXT", host="127.0.0.1", peer="127.0.0.1:5")
        self.member_id = member_id
        self.epoch = 0

    def client(self, epoch: int | None = None) -> ShareClient:
        return ShareClient(
            GROUP,
            self.member_id,
            self.epoch if epoch is None else epoch,
            self.connection,
            f"client of {self.member_id}",
        )

    def fetch(
        self,
        *added: SharePartitionKey,
        forgotten: Sequence[SharePartitionKey] = (),
        acknowledged: dict[SharePartitionKey, list[ShareAcknowledgementBatch]] | None = None,
        epoch: int | None = None,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1_000_000,
        max_records: int = 500,
        batch_size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        renews: bool = False,
    ) -> Asked:
        """Send a share fetch; with the epoch that is due, if none is given."""
        asked = Asked()
        image = self.house.image
        acknowledged = acknowledged or {}
        wants = ShareWants(
            added={key: named(image, key) for key in (*added, *acknowledged)},
            forgotten=forgotten,
            acknowledgements=acknowledged,
            renews=renews,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            limits=AcquireLimits(max_bytes, max_records, batch_size, mode) if max_records else None,
        )
        self.house.shares.fetches.fetch(self.client(epoch), wants, asked)
        self.epoch += 1
        return asked

    def acknowledge(
        self,
        key: SharePartitionKey,
        first_offset: int,
        last_offset: int | None = None,
        kind: int = 1,
        *,
        epoch: int | None = None,
        renews: bool = False,
    ) -> Asked:
        """Send acknowledgements of one type."""
        asked = Asked()
        last_offset = first_offset if last_offset is None else last_offset
        batches = {key: [ShareAcknowledgementBatch(first_offset, last_offset, (kind,))]}
        self.house.shares.fetches.acknowledge(self.client(epoch), batches, asked, renews=renews)
        self.epoch += 1
        return asked


class ShareHarness(Harness):
    """A broker that leads the partitions of topic "orders", which a share group reads from the beginning."""

    def __init__(
        self,
        *,
        max_sessions: int = 10,
        settings: ShareSettings | None = None,
        partitions: int = 1,
        store: TestStore | None = None,
        **configs: str,
    ) -> None:
        super().__init__(store)
        self.persister = MemoryPersister()
        self.lock_timer = Timer(self.clock.now_ms)
        self.timers.append(self.lock_timer)
        self.locks = Purgatory("AcquisitionLock", self.lock_timer, actions=self.actions)
        settings = settings or ShareSettings(auto_offset_reset=OffsetReset(ResetTo.EARLIEST))
        self.set_topics(topic(partitions=partitions, replicas=(1,), **configs))
        self.metrics = BrokerMetrics(1)
        services = ShareLeaderServices(
            image=lambda: self.image,
            settings=ShareGroupSettings(self, settings),
            persister=self.persister,
            clock=self.clock,
            purgatory=self.share_fetch_purgatory,
            lock_purgatory=lambda: self.locks,
            dead_letters=NO_DEAD_LETTERS,
            max_sessions=max_sessions,
            observer=self.metrics,
            work=self.long_work.own,
        )
        self.shares = LedShares(services, self.replicas)

    def key(self, partition: int = 0) -> SharePartitionKey:
        return SharePartitionKey(GROUP, self.image.topics[ORDERS.topic].topic_id, partition)

    def member(self, member_id: str = "ada") -> Member:
        return Member(self, member_id)
