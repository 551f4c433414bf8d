"""Random commits, transactions, tombstones and elections against a model that reads the log from its start each time.

The model knows nothing of what was appended when: the offsets that clients see are those that the replicated part of
the log says, by the plainest reading of it. So they stay the same when the log is compacted, or loaded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange
from purgatorio.broker.group.txn_offset_manager import TxnCommit
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.protocol.consumer_offsets import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from purgatorio.protocol.end_marker import EndMarker, read_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import BatchHeader, iter_batches, iter_records
from tests.broker.group.counted import check_counts
from tests.broker.group.harness import PARTITION, GroupHarness, offsets_topic
from tests.histories import seeds

STEPS = 120
GROUPS = ("a", "b")
PARTITIONS = 2
PRODUCERS = 3
Key = tuple[str, str, int]


@dataclass
class Model:
    """The offsets by the plainest reading of a log: of each record its place and the offset that it commits."""

    visible: dict[Key, tuple[int, int]] = field(default_factory=dict)
    open: dict[int, dict[Key, tuple[int, int]]] = field(default_factory=dict)

    def record(self, header: BatchHeader, place: int, key: Key, offset: int | None) -> None:
        if offset is None:
            self.visible.pop(key, None)
            for written in self.open.values():
                written.pop(key, None)
        elif header.is_transactional:
            self.open.setdefault(header.producer_id, {})[key] = place, offset
        else:
            self.visible[key] = place, offset

    def end(self, producer_id: int, committed: bool) -> None:
        for key, (place, offset) in self.open.pop(producer_id, {}).items():
            if committed and place > self.visible.get(key, (-1, -1))[0]:
                self.visible[key] = place, offset

    @property
    def unstable(self) -> set[Key]:
        return {key for written in self.open.values() for key in written}


class World:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.broker = GroupHarness(replicas=(1, 2))
        self.epoch = 0
        self.offset = 0
        self.answers: list[ErrorCode] = []
        self.compacted_bytes = 0
        self.checked = 0  # answers
        self._lead(1)

    def _lead(self, leader: int) -> None:
        self.epoch += 1
        configs = {"segment_bytes": "1024", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "1000"}
        self.broker.set_topics(offsets_topic((1, 2), leader, self.epoch, **configs))

    # --- steps ---

    def step(self) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.plain, 15),
            (self.txn, 30),
            (self.end, 25),
            (self.delete, 3),
            (self.replicate, 20),
            (self.wait, 4),
            (self.compact, 4),
            (self.fail_over, 2),
        ]
        (action,) = self.rng.choices([each for each, _ in actions], [weight for _, weight in actions])
        with suppress(CoordinatorError):  # it is loaded
            action()
        self.broker.work()
        self.check()

    def changes(self, *, deleted: bool = False) -> list[OffsetChange]:
        self.offset += 1
        committed = None if deleted else CommittedOffset(self.offset, -1, "", 0)
        group = self.rng.choice(GROUPS)
        partitions = self.rng.sample(range(PARTITIONS), self.rng.randint(1, PARTITIONS))
        return [OffsetChange(group, "orders", each, committed) for each in partitions]

    def plain(self) -> None:
        shard = self.broker.groups.coordinator.shard_of("a")
        self.broker.groups.offsets.write(shard, self.changes(), self.answers.append)

    def delete(self) -> None:
        shard = self.broker.groups.coordinator.shard_of("a")
        self.broker.groups.offsets.write(shard, self.changes(deleted=True), self.answers.append)

    def txn(self) -> None:
        producer_id = self.rng.randrange(PRODUCERS)
        changes = self.changes()
        offsets = [(each.topic, each.partition, each.committed) for each in changes if each.committed is not None]
        transaction = ProducerTransaction(str(producer_id), producer_id, 0, False)
        self.broker.groups.txn_offsets.commit(TxnCommit(changes[0].group_id, transaction, offsets), self.answers.append)

    def end(self) -> None:
        marker = EndMarker(self.rng.random() < 0.7, 0)
        self.broker.groups.txn_offsets.end(PARTITION, self.rng.randrange(PRODUCERS), 0, marker, self.answers.append)

    def replicate(self) -> None:
        partition = self.broker.partition(PARTITION)
        self.broker.follow((2, self.rng.choice(self.batch_ends(partition.high_watermark))), tp=PARTITION)

    def wait(self) -> None:
        self.broker.advance_ms(self.rng.choice([100, 6_000]))

    def compact(self) -> None:
        log = self.broker.partition(PARTITION).log
        before_bytes = log.size_bytes
        for _ in self.broker.replicas.compaction_steps():
            pass
        self.compacted_bytes += before_bytes - log.size_bytes

    def fail_over(self) -> None:
        """Let broker 2 lead for a moment, which lacks some records that were not replicated, and this one again."""
        partition = self.broker.partition(PARTITION)
        self._lead(2)
        self.broker.work()
        if self.rng.random() < 0.5:
            self.broker.replicas.truncate_to(partition, self.rng.choice(self.batch_ends(partition.high_watermark)))
        self._lead(1)

    # --- the model ---

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        log = self.broker.partition(PARTITION).log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = b"".join(log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset).parts)
            for header, batch in iter_batches(read):
                offset = header.last_offset + 1
                yield header, batch

    def batch_ends(self, from_offset: int) -> list[int]:
        """The offsets at which a batch ends, from an offset on."""
        return [from_offset, *(each.last_offset + 1 for each, _ in self.batches() if each.last_offset >= from_offset)]

    def read(self) -> tuple[Model, set[Key]]:
        """The model of the replicated part of the log, and the keys of later records of transactions."""
        high_watermark = self.broker.partition(PARTITION).high_watermark
        model, later = Model(), set()
        for header, batch in self.batches():
            if header.is_control:
                marker = read_end_marker(batch)
                if marker is not None and header.base_offset < high_watermark:
                    model.end(header.producer_id, marker.committed)
                continue
            for record in iter_records(batch):
                assert record.key is not None
                key = decode_key(record.key)
                assert isinstance(key, OffsetCommitKey)
                value = decode_value(key, record.value)
                assert value is None or isinstance(value, OffsetCommitValue)
                named = key.group_id, key.topic, key.partition
                if header.base_offset < high_watermark:
                    model.record(header, record.offset, named, None if value is None else value.offset)
                elif header.is_transactional:
                    later.add(named)
        return model, later

    def check(self) -> None:
        check_counts(self.broker.groups)
        try:
            offsets = self.broker.groups.coordinator.shard_of("a").offsets
        except CoordinatorError:
            return
        if offsets.pending_count and ErrorCode.COORDINATOR_NOT_AVAILABLE in self.answers[self.checked :]:
            return  # what timed out takes effect when the replicas have all of the log, not at once
        self.checked = len(self.answers)
        model, later = self.read()
        keys = [(group, "orders", partition) for group in GROUPS for partition in range(PARTITIONS)]
        seen = {key: committed.offset for key in keys if (committed := offsets.get(*key)) is not None}
        assert seen == {key: offset for key, (_, offset) in model.visible.items()}
        assert {key for key in keys if offsets.is_unstable(*key)} == model.unstable | later
        assert offsets.transactional.count == sum(map(len, model.open.values()))
        for group in GROUPS:
            unstable = {(group, topic, each) for topic, parts in offsets.unstable_of(group).items() for each in parts}
            assert unstable == {key for key in model.unstable | later if key[0] == group}


@pytest.mark.parametrize("seed", seeds(60, quick=3))
def test_clients_see_what_the_replicated_log_says(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()


def test_the_histories_contain_what_they_are_for() -> None:
    answers: dict[ErrorCode, int] = {}
    compacted_bytes = 0
    for seed in range(10):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        for code in world.answers:
            answers[code] = answers.get(code, 0) + 1
        compacted_bytes += world.compacted_bytes
    assert answers[ErrorCode.NONE] > 200
    assert answers[ErrorCode.COORDINATOR_NOT_AVAILABLE] > 5
    assert answers[ErrorCode.NOT_COORDINATOR] > 5
    assert compacted_bytes > 10_000
