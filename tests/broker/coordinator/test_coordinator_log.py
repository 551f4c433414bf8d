"""Records of groups are answered when they are committed, with the error codes of coordinators."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.coordinator_log import RETRY_MS, Fate, NewRecord, TransactionalProducer
from purgatorio.broker.coordinator.errors import coordinator_error
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.harness import PARTITION, GroupHarness

RECORD = NewRecord(b"key", b"value")
PRODUCER = TransactionalProducer(7, 5)


class Appended:
    """One append: what happened, in order."""

    def __init__(self, broker: GroupHarness) -> None:
        self.events: list[object] = []
        self.is_appended = broker.groups.coordinator.services.log.append(
            PARTITION, [RECORD], self.events.append, applied=lambda: self.events.append("applied")
        )


def test_records_are_applied_first_and_then_done_when_one_replica_is_enough() -> None:
    appended = Appended(GroupHarness())
    assert appended.is_appended
    assert appended.events == ["applied", ErrorCode.NONE]


def test_records_are_done_when_the_followers_have_them() -> None:
    broker = GroupHarness(replicas=(1, 2))
    appended = Appended(broker)
    assert appended.events == ["applied"]
    broker.follow((2, 1), tp=PARTITION)
    assert appended.events == ["applied", ErrorCode.NONE]


def test_records_that_wait_too_long_are_applied_but_not_done() -> None:
    broker = GroupHarness(replicas=(1, 2))
    appended = Appended(broker)
    broker.advance_ms(5_001)
    assert appended.events == ["applied", ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_records_that_are_refused_are_not_applied() -> None:
    broker = GroupHarness()
    broker.may_lead = False
    appended = Appended(broker)
    assert not appended.is_appended
    assert appended.events == [ErrorCode.NOT_COORDINATOR]


def test_records_are_applied_in_the_order_of_the_log_although_an_append_is_the_cause_of_another() -> None:
    broker = GroupHarness()
    log = broker.groups.coordinator.services.log
    applied: list[str] = []
    broker.actions.add(lambda: log.append(PARTITION, [RECORD], applied.append, applied=lambda: applied.append("2nd")))
    log.append(PARTITION, [RECORD], lambda code: None, applied=lambda: applied.append("1st"))
    assert applied == ["1st", "2nd", ErrorCode.NONE]


def test_records_of_a_transaction_are_in_a_transactional_batch_that_a_marker_ends() -> None:
    broker = GroupHarness()
    log = broker.groups.coordinator.services.log
    shard = broker.groups.coordinator.shard_of("app")
    events: list[object] = []
    log.append(PARTITION, [RECORD], events.append, producer=PRODUCER)
    assert broker.partition(PARTITION).last_stable_offset == 0
    log.write_end(
        shard,
        PRODUCER,
        EndMarker(True, 3),
        lambda fate, code: events.append((fate, code)),
        applied=lambda: events.append("applied"),
    )
    assert broker.partition(PARTITION).last_stable_offset == 2
    assert events == [ErrorCode.NONE, "applied", (Fate.COMMITTED, ErrorCode.NONE)]


def test_records_of_a_fenced_producer_are_refused() -> None:
    broker = GroupHarness()
    log = broker.groups.coordinator.services.log
    shard = broker.groups.coordinator.shard_of("app")
    fates: list[tuple[Fate, ErrorCode]] = []
    log.write_end(shard, PRODUCER, EndMarker(True, 3), lambda fate, code: None)
    fenced = PRODUCER._replace(producer_epoch=4)
    log.write(shard, [RECORD], lambda fate, code: fates.append((fate, code)), producer=fenced)
    log.write_end(shard, PRODUCER, EndMarker(True, 2), lambda fate, code: fates.append((fate, code)))
    assert fates == [
        (Fate.REFUSED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (Fate.REFUSED, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ]


class Written:
    """Writes to a partition of two replicas, of which the second does not follow yet: what each is told."""

    def __init__(self) -> None:
        self.broker = GroupHarness(replicas=(1, 2))
        self.shard = self.broker.groups.coordinator.shard_of("app")
        self.events: list[tuple[str, Fate, ErrorCode]] = []

    def write(self, name: str) -> None:
        self.broker.groups.coordinator.services.log.write(
            self.shard, [RECORD], lambda fate, code: self.events.append((name, fate, code))
        )

    def replicate(self) -> None:
        self.broker.follow((2, self.broker.partition(PARTITION).log.log_end_offset), tp=PARTITION)


UNCONFIRMED = (Fate.UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE)
LATE = (Fate.COMMITTED_LATE, ErrorCode.NONE)


def test_a_write_whose_replicas_are_late_is_told_twice() -> None:
    written = Written()
    written.write("a")
    written.broker.advance_ms(5_001)
    assert written.events == [("a", *UNCONFIRMED)]
    written.broker.advance_ms(5_001)
    written.broker.advance_ms(RETRY_MS)
    written.replicate()
    assert written.events == [("a", *UNCONFIRMED), ("a", *LATE)]
    assert (written.shard.unsure, written.shard.is_awaited) == ([], False)


def test_a_write_that_is_unknown_while_an_earlier_one_is_waited_for_gets_its_fate_too() -> None:
    written = Written()
    written.write("a")
    written.broker.advance_ms(5_001)
    written.write("b")
    written.broker.advance_ms(2_000)
    written.write("c")
    written.broker.advance_ms(5_001)
    written.broker.advance_ms(RETRY_MS)
    assert [name for name, *_ in written.events] == ["a", "b", "c"]
    written.replicate()
    assert written.events[3:] == [(name, *LATE) for name in "abc"]


def test_nobody_is_told_of_a_late_commit_after_the_shard_is_unloaded() -> None:
    written = Written()
    written.write("a")
    written.broker.advance_ms(5_001)
    written.shard.state = ShardState.UNLOADED
    written.replicate()
    written.broker.advance_ms(5_001 + RETRY_MS)
    assert written.events == [("a", *UNCONFIRMED)]
    assert written.broker.produce_purgatory.num_delayed == 0


def test_waiting_for_the_commit_ends_at_once_when_there_is_nothing_to_wait_for() -> None:
    broker = GroupHarness(replicas=(1, 2))
    done: list[ErrorCode] = []
    broker.groups.coordinator.services.log.when_committed(PARTITION, done.append)
    assert done == [ErrorCode.NONE]


def test_waiting_for_the_commit_ends_when_the_followers_have_all_records() -> None:
    broker = GroupHarness(replicas=(1, 2))
    Appended(broker)
    done: list[ErrorCode] = []
    broker.groups.coordinator.services.log.when_committed(PARTITION, done.append)
    assert done == []
    broker.follow((2, 1), tp=PARTITION)
    assert done == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("append", "told"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_appends_error_becomes_that_of_a_coordinator(append: ErrorCode, told: ErrorCode) -> None:
    assert coordinator_error(append) == told
