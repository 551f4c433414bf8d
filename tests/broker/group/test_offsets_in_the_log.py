"""Committed offsets in the log of `__consumer_offsets`: compacted, and never deleted for want of memory."""

from __future__ import annotations

from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange
from tests.broker.group.harness import PARTITION, GroupHarness, offsets_topic
from tests.broker.replica.harness import MIB, ORDERS, batch, topic

GROUPS = 50
ROUNDS = 400


def commit(broker: GroupHarness, group_id: str, offset: int | None) -> None:
    committed = None if offset is None else CommittedOffset(offset, -1, "", broker.clock.wall_ms())
    shard = broker.groups.coordinator.shard_of(group_id)
    broker.groups.offsets.write(shard, [OffsetChange(group_id, "orders", 0, committed)], lambda code: None)


def test_a_compacted_log_has_the_newest_offset_of_each_group() -> None:
    broker = GroupHarness()
    broker.set_topics(offsets_topic((1,), 1, 1, segment_bytes="16384", min_cleanable_dirty_ratio="0.1"))
    for nth in range(ROUNDS):
        for group in range(GROUPS):
            commit(broker, f"g{group}", nth)
    commit(broker, "g0", None)
    log = broker.partition(PARTITION).log
    before_bytes = log.size_bytes
    for _ in broker.replicas.compaction_steps():
        pass
    assert log.size_bytes < before_bytes / 20
    broker.set_topics(offsets_topic((1,), 1, 2))
    broker.work()
    kept = {
        group: each["orders"][0].offset
        for group, each in broker.groups.coordinator.shard_of("g").offsets.groups.items()
    }
    assert kept == {f"g{group}": ROUNDS - 1 for group in range(1, GROUPS)}


def test_the_memory_cap_deletes_other_records_and_no_committed_offsets() -> None:
    broker = GroupHarness()
    broker.set_topics(offsets_topic((1,), 1, 1, segment_bytes="16384"), topic(replicas=(1,), segment_bytes=str(MIB)))
    for nth in range(GROUPS * 20):
        commit(broker, f"g{nth}", nth)
    for _ in range(80):  # MiB, of at most 64
        assert broker.produce(ORDERS, acks=1, records=batch(bytes(MIB - 1_000))).error_codes == [0]
    assert broker.partition(PARTITION).log.log_start_offset == 0
    assert broker.partition(ORDERS).log.log_start_offset > 0
    broker.set_topics(offsets_topic((1,), 1, 2), topic(replicas=(1,)))
    broker.work()
    assert broker.groups.coordinator.shard_of("g").offsets.count == GROUPS * 20
