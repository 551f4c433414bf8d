"""The leader's rules: high watermark, in-sync replicas, leader epochs."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import MemoryExhausted
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.segment import BATCH_OVERHEAD_BYTES
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation, PartitionState
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.batches import batches_of


def batch(count: int = 1) -> bytes:
    return build_batch([Record(i, 1_700_000_000_000, None, b"value", ()) for i in range(count)])


def incarnation(broker_id: int, broker_epoch: int | None = None) -> BrokerIncarnation:
    """Return an incarnation of a broker; the first one has the broker id as its epoch."""
    return BrokerIncarnation(broker_id, broker_id if broker_epoch is None else broker_epoch)


def state(
    leader: int = 1,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionState:
    return PartitionState(leader, leader_epoch, replicas, tuple(map(incarnation, isr)), partition_epoch)


def leader(
    *, replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] | None = None, min_insync_replicas: int = 1
) -> Partition:
    """Return broker 1's replica, which leads in epoch 0."""
    log = Log(LogConfig(min_insync_replicas=min_insync_replicas))
    partition = Partition(TopicPartition("orders", 0), b"o" * 16, incarnation(1), log)
    partition.apply_state(state(isr=replicas if isr is None else isr, replicas=replicas), 0)
    return partition


def append(partition: Partition, count: int = 1, acks: int = 1) -> None:
    partition.append_as_leader(batch(count), acks=acks, wall_ms=1_700_000_000_000)


def test_a_leader_without_followers_commits_what_it_appends() -> None:
    partition = leader(replicas=(1,))
    append(partition)
    assert partition.advance_high_watermark()
    assert partition.high_watermark == 1


def test_the_high_watermark_is_the_smallest_log_end_of_the_in_sync_replicas() -> None:
    partition = leader()
    append(partition, 5)
    assert not partition.advance_high_watermark(), "no follower has fetched yet"
    assert not partition.follower_fetched(incarnation(2), 5, 0, 0), "broker 3 has not fetched yet"
    assert partition.follower_fetched(incarnation(3), 3, 0, 0)
    assert partition.high_watermark == 3
    assert partition.follower_fetched(incarnation(3), 5, 0, 0)
    assert partition.high_watermark == 5


def test_a_follower_that_is_not_in_sync_does_not_hold_the_high_watermark() -> None:
    partition = leader(isr=(1, 2))
    append(partition)
    assert partition.follower_fetched(incarnation(2), 1, 0, 0)
    assert partition.high_watermark == 1


def test_the_high_watermark_never_goes_back() -> None:
    partition = leader(replicas=(1, 2))
    append(partition, 2)
    partition.follower_fetched(incarnation(2), 2, 0, 0)
    assert not partition.follower_fetched(incarnation(2), 0, 0, 0)
    assert partition.high_watermark == 2


def test_the_high_watermark_does_not_advance_below_min_insync_replicas() -> None:
    partition = leader(isr=(1,), min_insync_replicas=2)
    append(partition)
    assert not partition.advance_high_watermark()


def test_acks_all_is_refused_before_appending_when_too_few_replicas_are_in_sync() -> None:
    partition = leader(isr=(1,), min_insync_replicas=2)
    with pytest.raises(PartitionError) as refused:
        append(partition, acks=-1)
    assert refused.value.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    append(partition, acks=1)
    assert partition.log.log_end_offset == 1


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    partition = leader(replicas=(1,), min_insync_replicas=2)
    append(partition, acks=-1)
    assert partition.advance_high_watermark()


def test_a_follower_does_not_take_records_from_producers() -> None:
    partition = leader()
    partition.apply_state(state(2, 1, (1, 2, 3), 1), 0)
    with pytest.raises(PartitionError) as refused:
        append(partition)
    assert refused.value.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "error_code"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (5, None),
        (-1, None),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_request_in_another_leader_epoch_is_refused(epoch: int, error_code: ErrorCode | None) -> None:
    partition = leader()
    partition.apply_state(state(1, 5, (1, 2, 3), 1), 0)
    if error_code is None:
        partition.check_leader(epoch)
    else:
        with pytest.raises(PartitionError) as refused:
            partition.check_leader(epoch)
        assert refused.value.error_code == error_code


def test_a_state_that_is_older_than_the_known_one_is_ignored() -> None:
    partition = leader()
    partition.apply_state(state(2, 2, (1, 2, 3), 7), 0)
    partition.apply_state(state(1, 1, (1, 2, 3), 6), 0)
    assert partition.leader == 2


def test_a_new_leader_epoch_forgets_the_followers_log_end_offsets() -> None:
    partition = leader()
    append(partition)
    partition.follower_fetched(incarnation(2), 1, 0, 0)
    partition.apply_state(state(1, 1, (1, 2, 3), 1), 0)
    assert partition.followers[2].log_end_offset == -1
    assert partition.leader_epoch_start_offset == 1


def test_a_change_of_the_isr_keeps_the_followers_log_end_offsets() -> None:
    partition = leader()
    append(partition)
    partition.follower_fetched(incarnation(2), 1, 0, 0)
    partition.apply_state(state(1, 0, (1, 2), 1), 0)
    assert partition.high_watermark == 1, "it no longer waits for broker 3, which left the ISR"


def test_laggards_names_the_brokers_and_their_log_end_offsets() -> None:
    partition = leader()
    append(partition, 42)
    partition.follower_fetched(incarnation(3), 40, 0, 0)
    assert in_words(partition.laggards(42)) == "orders-0: broker 2 has not fetched yet, broker 3 is at 40 of 42"


def test_a_follower_adopts_the_leaders_watermarks_up_to_its_log_end() -> None:
    source = leader(replicas=(1,))
    append(source, 3)
    partition = leader()
    partition.apply_state(state(2, 1, (1, 2, 3), 1), 0)
    records = b"".join(source.log.read(0, max_bytes=10_000, end_offset=3).parts)
    times = {"wall_ms": 1_700_000_000_000}
    assert partition.append_as_follower(records, leader_high_watermark=10, leader_log_start_offset=0, **times)
    assert (partition.log.log_end_offset, partition.high_watermark) == (3, 3)
    assert not partition.append_as_follower(b"", leader_high_watermark=2, leader_log_start_offset=1, **times)
    assert (partition.log.log_start_offset, partition.high_watermark) == (1, 3)


def test_a_follower_whose_memory_is_full_adopts_the_high_watermark_so_that_its_records_can_go() -> None:
    """Without that it would stay out of the ISR for ever: only records below the high watermark may be deleted."""
    source = leader(replicas=(1,))
    append(source, 3)
    append(source, 1)
    first, second = batches_of(source.log.read(0, max_bytes=10_000, end_offset=4).parts)
    memory = MemoryBudget(source.log.size_bytes + BATCH_OVERHEAD_BYTES)
    log = Log(LogConfig(), memory=memory)
    partition = Partition(TopicPartition("orders", 0), b"o" * 16, incarnation(1), log)
    partition.apply_state(state(2, 1), 0)
    times = {"leader_log_start_offset": 0, "wall_ms": 1_700_000_000_000}
    partition.append_as_follower(first, leader_high_watermark=0, **times)
    with pytest.raises(MemoryExhausted):
        partition.append_as_follower(second, leader_high_watermark=2, **times)
    assert partition.high_watermark == 2
    memory.set_limit(100)
    with pytest.raises(MemoryExhausted):
        partition.append_as_follower(second, leader_high_watermark=4, **times)
    assert partition.high_watermark == 3, "no further than its own log's end"


def test_a_follower_whose_memory_is_full_deletes_what_the_same_answer_says_is_committed() -> None:
    source = leader(replicas=(1,))
    append(source, 3)
    append(source, 1)
    first, second = batches_of(source.log.read(0, max_bytes=10_000, end_offset=4).parts)
    log = Log(LogConfig(), memory=MemoryBudget(source.log.size_bytes + BATCH_OVERHEAD_BYTES))
    partition = Partition(TopicPartition("orders", 0), b"o" * 16, incarnation(1), log)
    partition.apply_state(state(2, 1), 0)
    times = {"leader_log_start_offset": 0, "wall_ms": 1_700_000_000_000}
    partition.append_as_follower(first, leader_high_watermark=0, **times)
    assert partition.append_as_follower(second, leader_high_watermark=4, **times)
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (3, 4, 4)


def test_uncommitted_records_count_to_the_share_of_the_role() -> None:
    memory = MemoryBudget(100_000)
    partition = Partition(TopicPartition("orders", 0), b"o" * 16, incarnation(1), Log(LogConfig(), memory=memory))
    partition.apply_state(state(2), 0)
    assert (memory.led.used_bytes, memory.followed.used_bytes) == (0, 0)
    partition.apply_state(state(1, leader_epoch=1, partition_epoch=1), 0)
    append(partition, 3)
    taken_bytes = partition.log.size_bytes + BATCH_OVERHEAD_BYTES
    assert (memory.led.used_bytes, memory.followed.used_bytes) == (taken_bytes, 0)
    partition.apply_state(state(2, leader_epoch=2, partition_epoch=2), 0)
    assert (memory.led.used_bytes, memory.followed.used_bytes) == (0, taken_bytes)
    partition.append_as_follower(b"", leader_high_watermark=3, leader_log_start_offset=0, wall_ms=0)
    assert (memory.led.used_bytes, memory.followed.used_bytes) == (0, 0)


def test_truncation_lowers_the_high_watermark() -> None:
    partition = leader(replicas=(1,))
    for _ in range(3):
        append(partition)
    partition.advance_high_watermark()
    partition.truncate_to(1)
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)


# --- ISR ---


def test_while_a_follower_is_proposed_the_high_watermark_waits_for_it_too() -> None:
    partition = leader(isr=(1, 2))
    append(partition, 5)
    partition.follower_fetched(incarnation(2), 5, 0, 0)
    partition.follower_fetched(incarnation(3), 5, 0, 0)
    proposal = partition.propose_to_add(incarnation(3))
    assert proposal is not None
    assert proposal.isr == (incarnation(1), incarnation(2), incarnation(3))
    append(partition)
    assert not partition.follower_fetched(incarnation(2), 6, 0, 0), "broker 3 may be in sync already"
    assert partition.withdraw(proposal), "and now it certainly is not"
    assert partition.high_watermark == 6


def test_until_a_removal_is_committed_the_high_watermark_waits_for_the_removed_follower() -> None:
    partition = leader()
    append(partition, 5)
    partition.follower_fetched(incarnation(2), 5, 0, 100)
    proposal = partition.propose_to_drop_laggards(now_ms=100, max_lag_ms=99)
    assert proposal is not None
    assert proposal.isr == (incarnation(1), incarnation(2))
    assert not partition.advance_high_watermark()
    partition.apply_state(state(isr=(1, 2), partition_epoch=1), 100)
    assert partition.high_watermark == 5
    assert partition.proposal is None


def test_a_partition_has_one_proposal_at_a_time() -> None:
    partition = leader(isr=(1,))
    for broker_id in (2, 3):
        partition.follower_fetched(incarnation(broker_id), 0, 0, 0)
    assert partition.propose_to_add(incarnation(2)) is not None
    assert partition.propose_to_add(incarnation(3)) is None
    assert partition.propose_to_drop_laggards(10**6, 1) is None


def test_a_follower_is_proposed_if_it_reached_the_high_watermark_and_the_start_of_the_epoch() -> None:
    partition = leader(isr=(1, 2))
    append(partition, 5)
    partition.follower_fetched(incarnation(2), 5, 0, 0)
    partition.follower_fetched(incarnation(3), 4, 0, 0)
    assert partition.propose_to_add(incarnation(3)) is None, "the high watermark is 5"
    partition = leader(isr=(1,))
    append(partition, 3)
    partition.apply_state(state(leader_epoch=1, isr=(1, 2), partition_epoch=1), 0)
    partition.follower_fetched(incarnation(3), 2, 0, 0)
    assert partition.propose_to_add(incarnation(3)) is None, "this epoch began at 3"
    partition.follower_fetched(incarnation(3), 3, 0, 0)
    assert partition.propose_to_add(incarnation(2)) is None, "it is in sync"
    assert partition.propose_to_add(incarnation(3)) is not None


def test_kip_903_a_new_incarnation_of_a_follower_starts_without_a_log_end_offset() -> None:
    partition = leader(isr=(1, 2))
    append(partition, 5)
    partition.follower_fetched(incarnation(2), 4, 0, 0)
    partition.apply_state(
        PartitionState(1, 0, (1, 2, 3), (incarnation(1), incarnation(2, broker_epoch=9)), partition_epoch=1), 0
    )
    append(partition)
    assert in_words(partition.laggards(6)) == "orders-0: broker 2 has not fetched yet"
    assert partition.propose_to_add(incarnation(2, broker_epoch=9)) is None
    assert partition.high_watermark == 4
    assert partition.follower_fetched(incarnation(2, broker_epoch=9), 6, 0, 0)


def test_a_lag_counts_from_the_start_of_the_leadership() -> None:
    partition = leader()
    append(partition)
    partition.apply_state(state(leader_epoch=1, partition_epoch=1), 1_000)
    assert partition.propose_to_drop_laggards(1_500, 500) is None
    proposal = partition.propose_to_drop_laggards(1_501, 500)
    assert proposal is not None
    assert proposal.isr == (incarnation(1),)


def test_a_caught_up_follower_does_not_lag_even_if_it_fetched_long_ago() -> None:
    partition = leader()
    append(partition)
    for broker_id in (2, 3):
        partition.follower_fetched(incarnation(broker_id), 1, 0, 0)
    assert partition.propose_to_drop_laggards(10**9, 1) is None


def test_a_leadership_of_another_incarnation_of_this_broker_is_ignored() -> None:
    log = Log(LogConfig())
    partition = Partition(TopicPartition("orders", 0), b"o" * 16, incarnation(1, broker_epoch=9), log)
    partition.apply_state(state(), 0)
    assert (partition.is_leader, partition.leader) == (False, -1)


def test_without_a_lease_a_leader_appends_answers_and_commits_nothing() -> None:
    has_lease = True
    partition = Partition(
        TopicPartition("orders", 0), b"o" * 16, incarnation(1), Log(LogConfig()), may_lead=lambda: has_lease
    )
    partition.apply_state(state(replicas=(1,), isr=(1,)), 0)
    append(partition)
    has_lease = False
    assert not partition.advance_high_watermark()
    for act in (lambda: append(partition), lambda: partition.check_leader(-1)):
        with pytest.raises(PartitionError) as refused:
            act()
        assert refused.value.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 1


# --- deleting records (KIP-107) ---


def test_records_are_deleted_up_to_the_high_watermark_and_the_low_watermark_follows_the_followers() -> None:
    partition = leader(isr=(1, 2))
    append(partition, 5)
    partition.follower_fetched(incarnation(2), 3, 0, 0)
    assert partition.delete_records_before(2) == 2
    assert (partition.log.log_start_offset, partition.low_watermark) == (2, 0)
    partition.follower_fetched(incarnation(2), 3, 2, 0)
    assert partition.low_watermark == 2
    assert partition.delete_records_before(-1) == 3


@pytest.mark.parametrize("offset", [4, -2])
def test_offsets_outside_the_committed_log_cannot_be_deleted(offset: int) -> None:
    partition = leader(isr=(1, 2))
    append(partition, 5)
    partition.follower_fetched(incarnation(2), 3, 0, 0)
    partition.delete_records_before(2)
    with pytest.raises(PartitionError) as refused:
        partition.delete_records_before(offset)
    assert refused.value.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_records_of_a_compacted_topic_cannot_be_deleted() -> None:
    partition = leader()
    partition.log.config = LogConfig(cleanup_policy=("compact",))
    with pytest.raises(PartitionError) as refused:
        partition.delete_records_before(0)
    assert refused.value.error_code == ErrorCode.POLICY_VIOLATION
