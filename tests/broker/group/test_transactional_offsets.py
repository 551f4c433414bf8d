"""Offsets of open transactions: which of them take effect when the transactions end."""

from __future__ import annotations

from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange, ShardOffsets

A, B = 1, 2
KEY = ("app", "orders", 0)


def change(offset: int | None, partition: int = 0, group_id: str = "app") -> OffsetChange:
    """A commit of this offset, or a deletion."""
    return OffsetChange(group_id, "orders", partition, None if offset is None else CommittedOffset(offset, -1, "", 0))


def seen(offsets: ShardOffsets, partition: int = 0, group_id: str = "app") -> int | None:
    committed = offsets.get(group_id, "orders", partition)
    return None if committed is None else committed.offset


def is_clean(offsets: ShardOffsets) -> bool:
    """Whether nothing is left of transactions."""
    left = offsets.transactional
    return not left.count and not left.group_count and not left._keys_of and "orders" not in left._groups_of_topic


def test_offsets_take_effect_when_their_transaction_commits() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    assert (seen(offsets), offsets.is_unstable(*KEY), offsets.knows("app")) == (None, True, True)
    offsets.end(A, commits=True)
    assert (seen(offsets), offsets.is_unstable(*KEY), is_clean(offsets)) == (7, False, True)


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(5))
    offsets.apply(change(7), A)
    offsets.end(A, commits=False)
    assert (seen(offsets), is_clean(offsets)) == (5, True)


def test_of_one_transaction_the_last_offset_takes_effect() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.apply(change(9), A)
    assert offsets.transactional.count == 1
    offsets.end(A, commits=True)
    assert (seen(offsets), is_clean(offsets)) == (9, True)


def test_an_end_concerns_no_other_producer_and_ends_once() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.apply(change(8, partition=1), B)
    offsets.end(A, commits=True)
    offsets.end(A, commits=False)
    assert (seen(offsets), seen(offsets, 1), offsets.transactional.count) == (7, None, 1)


def test_kafka_14505_a_later_plain_commit_wins_over_the_transaction() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.apply(change(3))
    offsets.end(A, commits=True)
    assert (seen(offsets), is_clean(offsets)) == (3, True)


def test_kafka_14505_an_earlier_plain_commit_does_not() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(3))
    offsets.apply(change(7), A)
    offsets.end(A, commits=True)
    assert seen(offsets) == 7


def test_kafka_14505_of_two_transactions_the_later_record_wins_whichever_ends_last() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.apply(change(9), B)
    offsets.end(B, commits=True)
    offsets.end(A, commits=True)
    assert (seen(offsets), is_clean(offsets)) == (9, True)


def test_a_transactions_record_after_the_plain_commit_wins_although_another_one_was_before() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.apply(change(3))
    offsets.apply(change(8), A)
    offsets.end(A, commits=True)
    assert seen(offsets) == 8


def test_an_aborted_transactions_record_supersedes_none() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.apply(change(9), B)
    offsets.end(B, commits=False)
    offsets.end(A, commits=True)
    assert seen(offsets) == 7


def test_a_tombstone_clears_what_transactions_have_written() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(5))
    offsets.apply(change(7), A)
    offsets.apply(change(8), B)
    offsets.apply(change(None))
    assert (seen(offsets), is_clean(offsets), offsets.knows("app")) == (None, True, False)
    offsets.apply(change(9), B)
    offsets.end(A, commits=True)
    offsets.end(B, commits=True)
    assert seen(offsets) == 9


def test_appended_records_and_markers_take_effect_in_the_order_of_the_log_when_they_are_committed() -> None:
    offsets = ShardOffsets()
    offsets.append([change(7), change(8, partition=1)], A)
    assert (offsets.is_unstable(*KEY), offsets.is_pending(*KEY), offsets.total) == (True, True, 2)
    offsets.append([change(3)])
    last = offsets.append_end(A, commits=True)
    assert (seen(offsets), offsets.pending_count) == (None, 4)
    offsets.committed(last - 1)
    assert (seen(offsets), seen(offsets, 1), offsets.is_unstable(*KEY)) == (3, None, True)
    offsets.committed(last)
    assert (seen(offsets), seen(offsets, 1), offsets.is_unstable(*KEY), offsets.pending_count) == (3, 8, False, 0)
    assert is_clean(offsets)


def test_a_plain_commit_that_waits_for_replicas_is_not_unstable() -> None:
    offsets = ShardOffsets()
    offsets.append([change(7)])
    assert not offsets.is_unstable(*KEY)
    assert offsets.unstable_of("app") == {}


def test_unstable_partitions_by_topic() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7), A)
    offsets.append([change(7, partition=2)], B)
    offsets.apply(change(7, group_id="other"), A)
    assert offsets.unstable_of("app") == {"orders": {0: None, 2: None}}


def test_groups_and_partitions_of_a_topic_include_those_of_transactions() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7))
    offsets.apply(change(7), A)
    offsets.apply(change(7, partition=1), A)
    offsets.apply(change(7, group_id="other"), B)
    assert offsets.groups_with("orders") == ["app", "other"]
    assert offsets.partitions_of("app", "orders") == [0, 1]
    assert offsets.partitions("app") == [("orders", 0), ("orders", 1)]
    assert [each.offset for each in offsets.all_of("app", "orders", 0)] == [7, 7]
    assert [offsets.has_groups(number) for number in (2, 3)] == [True, False]
