"""The committed offsets of a shard take effect in the order of the log, when they are committed; counts of pairs."""

from __future__ import annotations

from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange, ShardOffsets, Tally


def change(offset: int | None, group_id: str = "app", topic: str = "orders", partition: int = 0) -> OffsetChange:
    """A commit of this offset, or a deletion."""
    return OffsetChange(group_id, topic, partition, None if offset is None else CommittedOffset(offset, -1, "", 0))


def kept(offsets: ShardOffsets) -> dict[tuple[str, str, int], int]:
    return {
        (group_id, topic, partition): each.offset
        for group_id, topics in offsets.groups.items()
        for topic, partitions in topics.items()
        for partition, each in partitions.items()
    }


def test_what_is_appended_takes_effect_when_it_is_committed() -> None:
    offsets = ShardOffsets()
    number = offsets.append([change(7)])
    assert (kept(offsets), offsets.pending_count, offsets.is_pending("app", "orders", 0)) == ({}, 1, True)
    offsets.committed(number)
    assert kept(offsets) == {("app", "orders", 0): 7}
    assert (offsets.count, offsets.pending_count, offsets.is_pending("app", "orders", 0)) == (1, 0, False)


def test_earlier_appends_take_effect_first() -> None:
    offsets = ShardOffsets()
    first = offsets.append([change(7), change(7, partition=1)])
    offsets.committed(offsets.append([change(9)]))
    assert kept(offsets) == {("app", "orders", 0): 9, ("app", "orders", 1): 7}
    offsets.committed(first)
    assert kept(offsets) == {("app", "orders", 0): 9, ("app", "orders", 1): 7}


def test_a_later_append_keeps_waiting() -> None:
    offsets = ShardOffsets()
    first = offsets.append([change(7)])
    offsets.append([change(9)])
    offsets.committed(first)
    assert kept(offsets) == {("app", "orders", 0): 7}
    assert offsets.is_pending("app", "orders", 0)


def test_a_deletion_leaves_nothing_behind() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7))
    offsets.apply(change(8, partition=1))
    for partition in (0, 1, 2):
        offsets.apply(change(None, partition=partition))
    offsets.apply(change(None, group_id="unknown"))
    assert (offsets.groups, offsets.groups_of_topic, offsets.count) == ({}, {}, 0)


def test_the_groups_of_a_topic_are_known() -> None:
    offsets = ShardOffsets()
    for group_id, topic in (("a", "orders"), ("b", "orders"), ("b", "bills")):
        offsets.apply(change(7, group_id, topic))
    offsets.apply(change(None, "b", "orders"))
    assert {topic: list(groups) for topic, groups in offsets.groups_of_topic.items()} == {
        "orders": ["a"],
        "bills": ["b"],
    }


def test_partitions_with_an_offset_include_pending_ones() -> None:
    offsets = ShardOffsets()
    offsets.apply(change(7))
    offsets.append([change(8), change(8, partition=1), change(8, group_id="other", partition=2)])
    assert offsets.partitions("app") == [("orders", 0), ("orders", 1)]
    assert offsets.partitions("unknown") == []


# --- counts of pairs ---


def test_a_pair_is_there_until_it_was_discarded_as_often_as_it_was_added() -> None:
    tally: Tally[str, int] = Tally()
    tally.add("a", 1)
    tally.add("a", 1)
    tally.add("a", 2)
    tally.discard("a", 1)
    assert tally.has("a", 1)
    tally.discard("a", 1)
    assert (tally.has("a", 1), tally.has("b", 2), "a" in tally, list(tally.of("a"))) == (False, False, True, [2])


def test_nothing_is_left_of_a_pair_without_any() -> None:
    tally: Tally[str, int] = Tally()
    tally.add("a", 1)
    tally.discard("a", 1)
    assert ("a" in tally, list(tally.of("a")), tally._counts) == (False, [], {})
