"""A share partition against a plain list of records, in random histories.

The list knows of each record its state, its deliveries, its owner and the end of its lock. After each step the share
partition must say the same. What a fetch acquires is not predicted but judged: all of it was available, no limit is
exceeded, and if there was something to acquire, something is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.acquiring import AcquireMode, isolated_from
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import Shared, Written
from tests.broker.share.record_list import NONE, A, Coordinator, K, Q, Record, RecordList, X, kinds, offsets_of
from tests.broker.share.test_in_flight import check as check_counts

LOST = ErrorCode.NETWORK_EXCEPTION
LOCK_MS = 30_000
MEMBERS = st.sampled_from(["ada", "bob", "carl"])
RENEW = 4


@dataclass
class Pending:
    """An acknowledgement or a release that is being written."""

    targets: dict[int, RecordState]
    records: dict[int, Record]
    answers: list[ErrorCode]
    accepted: list[int]


class ShareMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shared = Shared(settings=ShareSettings(max_record_locks=20, record_lock_duration_ms=LOCK_MS))
        self.persister = self.shared.persister
        self.coordinator = Coordinator()
        self.log: list[tuple[int, int]] = []
        self.log_start = self.log_end = 0
        self.aborted: set[int] = set()
        self.listed = RecordList(self.shared.settings.delivery_count_limit)
        self.pending: dict[int, Pending] = {}
        self.accepted: set[int] = set()
        self.handled = 0

    # --- the log ---

    @initialize(sizes=st.lists(st.integers(1, 5), min_size=3, max_size=12), waits=st.sampled_from([True, True, False]))
    def begin(self, sizes: list[int], waits: bool) -> None:
        self.produce(sizes)
        self.persister.waits = waits

    @rule(size=st.integers(1, 5))
    def produce_a_record_batch(self, size: int) -> None:
        self.produce([size])

    def produce(self, sizes: list[int]) -> None:
        for size in sizes:
            self.log.append((self.log_end, self.log_end + size - 1))
            self.log_end += size

    @precondition(lambda self: len(self.log) > 1)
    @rule(data=st.data(), aborts=st.booleans())
    def lose_a_record_batch(self, data: st.DataObject, aborts: bool) -> None:
        """It is compacted away, or its transaction was aborted. The last one stays."""
        first, last = batch = data.draw(st.sampled_from(self.log[:-1]))
        if aborts:
            self.aborted.update(range(first, last + 1))
        else:
            self.log.remove(batch)

    @rule(data=st.data())
    def delete_from_the_log(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log_start, min(self.log_end, self.listed.start + 6)))
        self.log_start = offset
        self.log = [(first, last) for first, last in self.log if last >= offset]
        self.shared.partition.log_start_moved(offset)
        self.listed.end = max(self.listed.end, offset - 1)
        self.listed.move_start(offset)

    # --- fetches ---

    @precondition(lambda self: self.shared.partition.may_acquire())
    @rule(member=MEMBERS, most=st.integers(1, 12), mode=st.sampled_from(AcquireMode), times=st.integers(1, 3))
    def fetch_some(self, member: str, most: int, mode: AcquireMode, times: int) -> None:
        for _ in range(times):
            self.fetch(member, most, 3, mode, 4)

    @rule(
        member=MEMBERS,
        most=st.integers(1, 20),
        size=st.integers(1, 6),
        mode=st.sampled_from(AcquireMode),
        count=st.integers(1, 6),
    )
    def fetch(self, member: str, most: int, size: int, mode: AcquireMode, count: int) -> None:
        offset = self.shared.partition.next_fetch_offset()
        read = [batch for batch in self.log if batch[1] >= offset][:count]
        if not read or not self.shared.partition.may_acquire():
            return
        undelivered = [(each, each) for each in sorted(self.aborted) if read[0][0] <= each <= read[-1][1]]
        absent = {*range(offset, read[0][0]), *(each for each, _ in undelivered)}
        acquired = self.shared.acquire(*read, member=member, most=most, size=size, mode=mode, undelivered=undelivered)
        self.listed.take_out(absent)
        room = 20 - sum(not each.is_hole for each in self.listed.records.values())
        offsets = [offset for first, last, _ in acquired for offset in range(first, last + 1)]
        self.judge(acquired, offsets, read, absent, most, room, mode)
        self.deliver(member, acquired, offsets, absent)

    def judge(
        self,
        acquired: Sequence[tuple[int, int, int]],
        offsets: list[int],
        read: list[tuple[int, int]],
        absent: set[int],
        most: int,
        room: int,
        mode: AcquireMode,
    ) -> None:
        may = self.listed.deliverable(read, absent, room)
        assert offsets == sorted(set(offsets))
        if not self.listed.is_past_limit():  # records that a fetch gives up leave room for others
            assert set(offsets) <= set(may)
            assert bool(may) == bool(offsets)
        assert not may or may[0] == offsets[0]
        if not offsets:
            return
        new = [offset for offset in offsets if offset > self.listed.end]
        within = [last - first + 1 for first, last in read if first <= offsets[-1] <= last] or [0]
        slack = within[0] - 1 if mode is AcquireMode.BATCH_OPTIMIZED and within[0] else 0
        assert len(offsets) <= most + slack
        assert not new or self.shared.partition.in_flight.record_count <= 20 + slack
        before = {offset: self.listed.deliveries(offset) for offset in offsets}
        assert {offset: count - 1 for first, last, count in acquired for offset in range(first, last + 1)} == before
        isolated = [count >= isolated_from(self.listed.limit) for count in before.values()]
        assert all(isolated) or not any(isolated)
        if self.listed.limit > 2 and self.listed.limit - 1 in before.values():
            assert len(offsets) == 1

    def deliver(
        self, member: str, acquired: Sequence[tuple[int, int, int]], offsets: list[int], absent: set[int]
    ) -> None:
        end = self.shared.partition.end_offset
        for offset in range(self.listed.end + 1, end + 1):
            assert offset in offsets or offset in absent
            self.listed.records[offset] = Record(X if offset in absent else A, 0)
        self.listed.end = end
        for offset in offsets:
            assert offset not in self.accepted
            record = self.listed.records[offset]
            record.state, record.owner, record.deadline_ms = Q, member, self.shared.now_ms + LOCK_MS
            record.deliveries += 1
            assert record.deliveries <= self.listed.limit
        if offsets or self.listed.is_past_limit():
            self.give_up_past_limit(offsets)
        self.listed.move_start(self.listed.start)
        self.take_writes()

    def give_up_past_limit(self, offsets: list[int]) -> None:
        """A fetch gives up records on its way whose limit was lowered; which these are is up to it."""
        state = {offset: batch.state for batch in self.shared.partition.in_flight for offset in offsets_of(batch)}
        for offset, record in self.listed.records.items():
            if record.is_free and record.deliveries >= self.listed.limit and state.get(offset, X) is X:
                record.settle(X)

    # --- acknowledgements ---

    @rule(
        member=MEMBERS,
        parts=st.lists(st.tuples(st.integers(-2, 3), st.integers(1, 4)), min_size=1, max_size=3),
        types=st.lists(st.integers(0, 4), min_size=1, max_size=4),
        whole=st.booleans(),
        at=st.integers(-3, 25),
    )
    def acknowledge_anything(
        self, member: str, parts: list[tuple[int, int]], types: list[int], whole: bool, at: int
    ) -> None:
        said, offset = [], max(0, self.listed.start + at)
        for gap, count in parts:
            first = max(0, offset + gap)
            said.append((first, first + count - 1, (types[0],) if whole else tuple((types * 4)[:count])))
            offset = first + count
        self.acknowledge(member, said)

    @precondition(lambda self: self.listed.held())
    @rule(data=st.data(), kind=st.sampled_from([0, 1, 1, 2, 2, 3]), count=st.integers(1, 8))
    def acknowledge_what_is_held(self, data: st.DataObject, kind: int, count: int) -> None:
        first = data.draw(st.sampled_from(self.listed.held()))
        records, last = self.listed.records, first
        member = records[first].owner
        while last + 1 in records and self.listed.is_held(records[last + 1], member) and last - first + 1 < count:
            last += 1
        assert self.acknowledge(member, [(first, last, (kind,))]) in (None, NONE, ErrorCode.UNKNOWN_SERVER_ERROR)

    @precondition(lambda self: self.listed.held())
    @rule(data=st.data(), count=st.integers(1, 3))
    def renew(self, data: st.DataObject, count: int) -> None:
        """When half of the time is over, for a part of what a member has."""
        self.pass_time(LOCK_MS // 2)
        held = self.listed.held()
        if held:
            first = data.draw(st.sampled_from(held))
            self.acknowledge(self.listed.records[first].owner, [(first, first + count - 1, (RENEW,))])

    def acknowledge(self, member: str, said: list[tuple[int, int, tuple[int, ...]]]) -> ErrorCode | None:
        """Acknowledge, and compare with what the list of records says; return the answer, if it has come."""
        expected = self.listed.expected_error(member, said)
        targets: dict[int, RecordState] = {}
        if not expected:
            for offset, kind in kinds(said):
                record = self.listed.records.get(offset)
                if record is not None and not record.is_hole:
                    if kind == RENEW:
                        record.deadline_ms = self.shared.now_ms + LOCK_MS
                    else:
                        targets[offset] = self.listed.target(record, kind)
        accepted = [offset for offset, kind in kinds(said) if kind == 1 and offset in targets]
        return self.change(targets, accepted, lambda: self.shared.ack(*said, member=member, renews=True), expected)

    @rule(member=MEMBERS)
    def end_a_session(self, member: str) -> None:
        targets = {
            offset: self.listed.target(record, 2)
            for offset, record in self.listed.records.items()
            if self.listed.is_held(record, member)
        }
        self.change(targets, [], lambda: self.shared.release(member), NONE)

    def change(self, targets: dict[int, RecordState], accepted: list[int], act: Any, expected: ErrorCode) -> Any:
        """Do what is written first: the records wait for that."""
        records = {offset: self.listed.records[offset] for offset in targets}
        for offset, target in targets.items():
            records[offset].target = target
        before, error = len(self.persister.writes), self.persister.error
        answers = act()
        if expected or not targets:
            assert (answers, len(self.persister.writes)) == ([expected], before)
            return expected
        write = self.persister.writes[before]
        assert dict(rows(write)) == {offset: (targets[offset], records[offset].deliveries) for offset in targets}
        pending = Pending(targets, records, answers, accepted)
        if self.persister.waits:
            assert answers == []
            self.pending[id(write)] = pending
            self.handled = len(self.persister.writes)
            return None
        self.finish(write, pending, error, is_stored=not error)
        return answers[0]

    def finish(self, write: Written, pending: Pending, error: ErrorCode, *, is_stored: bool) -> None:
        """Note how a write has ended."""
        assert pending.answers == [ErrorCode.UNKNOWN_SERVER_ERROR if error else NONE]
        if is_stored:
            self.coordinator.write(write)
        self.handled = max(self.handled, self.persister.writes.index(write) + 1)
        for offset, record in pending.records.items():
            if self.listed.records.get(offset) is not record:
                continue
            if not error:
                record.settle(pending.targets[offset])
            elif record.ran_out:
                record.settle(self.listed.target(record, 2))
            else:
                record.target = None
        if not error:
            self.accepted.update(pending.accepted)
        self.listed.move_start(self.listed.start)
        self.take_writes()

    # --- the persister ---

    @rule(error=st.sampled_from([NONE, NONE, LOST]), waits=st.sampled_from([True, True, True, False]))
    def set_the_persister(self, error: ErrorCode, waits: bool) -> None:
        self.persister.error, self.persister.waits = error, waits

    @rule(data=st.data(), first=st.integers(0, 5), error=st.sampled_from([NONE, LOST]), late=st.booleans())
    def write_while_the_log_or_time_moves(self, data: st.DataObject, first: int, error: ErrorCode, late: bool) -> None:
        held = self.listed.held()[first:]
        if held:
            self.persister.waits = True
            self.acknowledge(self.listed.records[held[0]].owner, [(held[0], held[0] + 2, (1,))])
            if late:
                self.pass_time(LOCK_MS)
            else:
                self.delete_from_the_log(data)
            if self.persister.waiting:
                self.answer_a_write(data, error, written=False)

    @precondition(lambda self: self.persister.waiting)
    @rule(data=st.data(), error=st.sampled_from([NONE, NONE, LOST]), written=st.booleans())
    def answer_a_write(self, data: st.DataObject, error: ErrorCode, written: bool) -> None:
        """An error does not say that nothing was written."""
        write = data.draw(st.sampled_from(self.persister.waiting))
        self.persister.waiting.remove(write)
        write.done(error)
        pending = self.pending.pop(id(write), None)
        if pending is not None:
            self.finish(write, pending, error, is_stored=written or not error)
        elif written or not error:
            self.coordinator.write(write)

    def take_writes(self) -> None:
        """Store writes that nobody waits for, unless they wait or fail."""
        for write in self.persister.writes[self.handled :]:
            if not self.persister.waits and not self.persister.error:
                self.coordinator.write(write)
        self.handled = len(self.persister.writes)

    # --- time, settings, leaders ---

    @rule(delta_ms=st.sampled_from([1, 10_000, LOCK_MS // 2, LOCK_MS]))
    def pass_time(self, delta_ms: int) -> None:
        self.shared.advance(delta_ms)
        for record in self.listed.records.values():
            if record.state is Q and not record.ran_out and record.deadline_ms <= self.shared.now_ms:
                if record.target is None:
                    record.settle(self.listed.target(record, 2))
                else:
                    record.ran_out = True
        self.listed.move_start(self.listed.start)
        self.take_writes()

    @rule(times=st.integers(1, 5), delta_ms=st.sampled_from([LOCK_MS // 2, LOCK_MS]))
    def deliver_in_vain(self, times: int, delta_ms: int) -> None:
        for _ in range(times):
            self.fetch("ada", 20, 20, AcquireMode.BATCH_OPTIMIZED, 6)
            self.pass_time(delta_ms)

    @rule(limit=st.integers(2, 6))
    def set_the_delivery_limit(self, limit: int) -> None:
        self.shared.settings = ShareSettings(
            max_record_locks=20, record_lock_duration_ms=LOCK_MS, delivery_count_limit=limit
        )
        self.listed.limit = limit

    @rule(written=st.booleans())
    def change_the_leader(self, written: bool) -> None:
        """What the old leader is writing is written before the new one reads, or never."""
        self.shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for write in self.persister.waiting:
            pending = self.pending.pop(id(write), None)
            write.done(NONE if written else ErrorCode.FENCED_LEADER_EPOCH)
            if written:
                self.coordinator.write(write)
            if pending is not None:
                assert pending.answers == [NONE if written else ErrorCode.NOT_LEADER_OR_FOLLOWER]
                self.accepted.update(pending.accepted if written else ())
        self.persister.waiting.clear()
        self.persister.state, self.persister.error, self.persister.waits = self.coordinator.state(), NONE, False
        assert self.shared.parked() == []
        self.shared.partition = self.shared.lead()
        assert self.shared.load() == [NONE]
        kept = self.coordinator
        self.listed.start, self.listed.end = kept.start_offset, max(kept.records, default=kept.start_offset - 1)
        self.listed.records = {}
        for offset in range(self.listed.start, self.listed.end + 1):
            deliveries, state = kept.records.get(offset, (0, A))
            self.listed.records[offset] = Record(RecordState(state), deliveries)
        self.listed.move_start(self.listed.start)
        if self.log_start > self.listed.start:
            self.shared.partition.log_start_moved(self.log_start)
            self.listed.end = max(self.listed.end, self.log_start - 1)
            self.listed.move_start(self.log_start)

    # --- what must hold ---

    @invariant()
    def the_records_are_those_of_the_list(self) -> None:
        partition = self.shared.partition
        found = {
            offset: (batch.state, batch.delivery_count, batch.lock.member_id if batch.lock else "", batch.target)
            for batch in partition.in_flight
            for offset in offsets_of(batch)
        }
        assert found == {offset: record.shown() for offset, record in sorted(self.listed.records.items())}
        assert (partition.start_offset, partition.end_offset) == (self.listed.start, self.listed.end)
        free = [offset for offset, record in sorted(self.listed.records.items()) if record.is_free]
        assert partition.next_fetch_offset() == (free[0] if free else self.listed.end + 1)
        check_counts(partition.in_flight)

    @invariant()
    def each_acquired_record_has_one_lock(self) -> None:
        locks = {batch.lock for batch in self.shared.partition.in_flight if batch.lock and not batch.lock.ran_out}
        held = sum(record.state is Q and not record.ran_out for record in self.listed.records.values())
        assert sum(lock.held_count for lock in locks) == held
        assert len(self.shared.parked()) == len(locks)

    @invariant()
    def what_was_accepted_stays_so(self) -> None:
        for offset, record in self.listed.records.items():
            assert offset not in self.accepted or record.state in (K, X)

    def teardown(self) -> None:
        """With a persister that works, one member can work off the whole log."""
        self.change_the_leader(written=True)
        self.set_the_delivery_limit(6)
        end = self.log[-1][1] + 1 if self.log else 0
        for _ in range(self.listed.end - self.listed.start + len(self.log) + 2):
            if self.listed.start >= end:
                break
            self.fetch("ada", 12, 6, AcquireMode.BATCH_OPTIMIZED, 6)
            while held := self.listed.held():
                last = held[0]
                while last + 1 in held:
                    last += 1
                self.acknowledge("ada", [(held[0], last, (1,))])
            self.the_records_are_those_of_the_list()
        assert self.shared.partition.start_offset >= end


def rows(write: Written) -> Iterator[tuple[int, tuple[int, int]]]:
    for first, last, state, deliveries in write.batches:
        for offset in range(first, last + 1):
            yield offset, (state, deliveries)


TestShareHistories = pytest.mark.slow(ShareMachine.TestCase)
TestShareHistories.settings = settings(stateful_step_count=40, deadline=None)
