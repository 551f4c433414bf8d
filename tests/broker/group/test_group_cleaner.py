"""Groups and offsets are deleted on request, when they expire, and with their topic."""

from __future__ import annotations

from typing import ClassVar

import pytest

from purgatorio.broker.coordinator.coordinator_log import NewRecord, TransactionalProducer
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup, ResolvedExpression
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group, GroupType
from purgatorio.broker.group.group_cleaner import MAX_CHANGES, GroupCleaner
from purgatorio.broker.group.offset_manager import OffsetManager, OffsetWriter, offset_record
from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange, ShardOffsets
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.time import long_work
from purgatorio.protocol.consumer_offsets import GroupMetadataKey, Key, OffsetCommitKey, decode_key
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from purgatorio.protocol.records import iter_batches, iter_records
from tests.broker.group.harness import PARTITION, GroupHarness, offsets_topic
from tests.broker.replica.harness import topic
from tests.broker.time.by_hand import slices, turns_of

ORDERS_ID = topic("orders").topic_id
MINUTE_MS = 60_000
WEEK_MS = 10_080 * MINUTE_MS
PRODUCER = TransactionalProducer(1000, 0)


class AGroup(Group):
    """A group whose state the test sets."""

    type: ClassVar[GroupType] = "classic"
    state_name = "Stable"
    protocol_type = "consumer"
    is_empty = True
    member_count = 0

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topics: list[str] = []
        self.expires_from_ms: int | None = -1

    def record_keys(self) -> list[Key]:
        return [GroupMetadataKey(group_id=self.group_id)]

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    def check_commit(self, member_id: str, instance_id: str | None, generation_or_epoch: int, version: int) -> None:
        pass

    def _check_member(self, member_id: str, instance_id: str | None, generation_or_epoch: int) -> None:
        pass

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        pass

    def check_delete(self) -> None:
        if not self.is_empty:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP, "it has members")

    def offset_expires_from_ms(self, topic: str, commit_ms: int) -> int | None:
        return commit_ms if self.expires_from_ms == -1 else self.expires_from_ms


class Lifecycle:
    """Remembers the groups whose timers were stopped."""

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def loaded(self, shard: GroupShard, group: Group) -> None:
        pass

    def unloaded(self, shard: GroupShard, group: Group) -> None:
        self.stopped.append(group.group_id)


class Broker(GroupHarness):
    """Broker 1 with the topics orders and bills; a coordinator of groups that the test makes."""

    def __init__(self, replicas: tuple[int, ...] = (1,)) -> None:
        super().__init__(replicas)
        services = self.groups.coordinator.services
        self.lifecycle = Lifecycle()
        self.coordinator = GroupCoordinator(
            services,
            self.replicas,
            replays={},
        )
        self.coordinator.lifecycles = {"classic": self.lifecycle, "consumer": self.lifecycle}
        self.offsets = OffsetManager(services, self.coordinator, OffsetWriter(services.log))
        self.cleaner = GroupCleaner(services, self.coordinator, self.offsets)
        self.own = offsets_topic(replicas, 1, 1)
        self.change_topics(self.own, topic("orders"), topic("bills"))

    def change_topics(self, *topics: object) -> None:
        self.set_topics(*topics)  # type: ignore[arg-type]
        self.cleaner.image_changed(self.image)

    @property
    def shard(self) -> GroupShard:
        return self.coordinator.shard_of("app")

    def add(self, group: AGroup) -> AGroup:
        self.shard.put(group)
        return group

    def commit(self, *names: str, partitions: int = 1, group_id: str = "app", expire_ms: int = -1) -> None:
        offsets = [
            (name, index, CommittedOffset(7, -1, "", self.clock.wall_ms(), expire_ms, topic(name).topic_id))
            for name in names
            for index in range(partitions)
        ]
        self.offsets.write(self.shard, [OffsetChange(group_id, *offset) for offset in offsets], lambda code: None)

    def commit_in_transaction(self, *names: str, group_id: str = "app") -> None:
        offsets = [
            OffsetChange(group_id, name, 0, CommittedOffset(9, -1, "", 0, -1, topic(name).topic_id)) for name in names
        ]
        self.offsets.write(self.shard, offsets, lambda code: None, producer=PRODUCER)

    def end_transaction(self) -> None:
        services = self.groups.coordinator.services
        OffsetWriter(services.log).end(self.shard, PRODUCER, EndMarker(True, 0), lambda code: None)

    def kept(self, group_id: str = "app") -> dict[str, list[int]]:
        return {name: list(offsets) for name, offsets in self.offsets.offsets_of(group_id).items()}

    def delete(self, group_id: str = "app") -> list[ErrorCode]:
        done: list[ErrorCode] = []
        self.cleaner.delete_group(group_id, done.append)
        self.clean()
        return done

    def delete_offsets(self, *partitions: tuple[str, int], group_id: str = "app") -> list[list[ErrorCode]]:
        done: list[list[ErrorCode]] = []
        self.cleaner.delete_offsets(group_id, partitions, lambda codes: done.append(list(codes)))
        return done

    def clean(self) -> int:
        return turns_of(self.cleaner.steps())

    def expire(self, after_ms: int = 0) -> int:
        self.clock.advance_ms(after_ms)
        return turns_of(self.cleaner.expiry_steps())

    def tombstones(self) -> list[object]:
        """The keys of all tombstones in the log."""
        log = self.partition(PARTITION).log
        data = b"".join(log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset).parts)
        records = [record for _, batch in iter_batches(data) for record in iter_records(batch)]
        return [decode_key(each.key) for each in records if each.value is None and each.key is not None]

    def reload(self) -> None:
        """Elect this broker again, so that it loads the log."""
        self.own = offsets_topic((1,), 1, self.own.partitions[0].leader_epoch + 1)
        self.set_topics(self.own, topic("orders"), topic("bills"))
        for _ in self.coordinator.steps():
            pass


@pytest.fixture
def broker() -> Broker:
    return Broker()


def refusal(call: object, *args: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        call(*args)  # type: ignore[operator]
    return refused.value.error_code


# --- DeleteGroups ---


def test_a_group_is_deleted_with_its_offsets(broker: Broker) -> None:
    broker.add(AGroup("app"))
    broker.commit("orders", "bills")
    assert broker.delete() == [ErrorCode.NONE]
    assert (broker.shard.groups, broker.kept(), broker.lifecycle.stopped) == ({}, {}, ["app"])
    assert broker.tombstones() == [
        GroupMetadataKey(group_id="app"),
        OffsetCommitKey(group_id="app", topic="orders", partition=0),
        OffsetCommitKey(group_id="app", topic="bills", partition=0),
    ]
    broker.reload()
    assert broker.kept() == {}


def test_a_consumer_group_has_a_tombstone_for_each_of_its_records(broker: Broker) -> None:
    group = ConsumerGroup("app")
    group.expressions["^orders"] = ResolvedExpression(frozenset({"orders"}), version=1, resolved_ms=0)
    broker.shard.put(group)
    assert broker.delete() == [ErrorCode.NONE]
    assert broker.tombstones() == [
        ConsumerGroupRegularExpressionKey(group_id="app", regular_expression="^orders"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id="app"),
        ConsumerGroupMetadataKey(group_id="app"),
    ]


def test_a_group_that_has_only_offsets_is_deleted(broker: Broker) -> None:
    broker.commit("orders")
    assert broker.delete() == [ErrorCode.NONE]
    assert broker.kept() == {}
    assert refusal(broker.delete) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_not_deleted(broker: Broker) -> None:
    broker.add(AGroup("app")).is_empty = False
    broker.commit("orders")
    assert refusal(broker.delete) == ErrorCode.NON_EMPTY_GROUP
    assert broker.kept() == {"orders": [0]}


def test_an_offset_that_is_not_replicated_yet_is_deleted_with_its_group() -> None:
    broker = Broker(replicas=(1, 2))
    broker.commit("orders")
    done = broker.delete()
    assert done == []
    broker.follow((2, 2), tp=PARTITION)
    assert done == [ErrorCode.NONE]
    assert broker.kept() == {}


def test_a_group_with_many_offsets_is_deleted_in_steps_and_cannot_commit_meanwhile(broker: Broker) -> None:
    broker.commit("orders", partitions=3 * MAX_CHANGES)
    done: list[ErrorCode] = []
    broker.cleaner.delete_group("app", done.append)
    steps = broker.cleaner.steps()
    next(steps)
    offset = CommittedOffset(9, -1, "", 0)
    commit = [("orders", 0, offset)]
    with pytest.raises(CoordinatorError) as refused:
        broker.offsets.commit("app", commit, lambda code: None, version=9)
    assert refused.value.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert turns_of(steps) >= 3
    assert (done, broker.kept()) == ([ErrorCode.NONE], {})
    broker.offsets.commit("app", commit, lambda code: None, version=9)
    assert broker.kept() == {"orders": [0]}


def test_a_deletion_that_loses_its_partition_is_answered(broker: Broker) -> None:
    broker.commit("orders")
    done: list[ErrorCode] = []
    broker.cleaner.delete_group("app", done.append)
    broker.elect(2, 2)
    broker.clean()
    assert done == [ErrorCode.NOT_COORDINATOR]


# --- OffsetDelete ---


def test_offsets_are_deleted(broker: Broker) -> None:
    broker.commit("orders", "bills")
    assert broker.delete_offsets(("orders", 0), ("orders", 5)) == [[ErrorCode.NONE, ErrorCode.NONE]]
    assert broker.kept() == {"bills": [0]}
    assert len(broker.tombstones()) == 1


def test_offsets_of_an_unknown_group_are_not_deleted(broker: Broker) -> None:
    assert refusal(broker.delete_offsets, ("orders", 0)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_topic_that_members_consume_are_not_deleted(broker: Broker) -> None:
    group = broker.add(AGroup("app"))
    group.is_empty, group.topics = False, ["orders"]
    broker.commit("orders", "bills")
    codes = broker.delete_offsets(("orders", 0), ("bills", 0))
    assert codes == [[ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]]
    assert broker.kept() == {"orders": [0]}


def test_offsets_of_members_of_another_protocol_are_not_deleted(broker: Broker) -> None:
    group = broker.add(AGroup("app"))
    group.is_empty, group.protocol_type = False, "connect"
    assert refusal(broker.delete_offsets, ("orders", 0)) == ErrorCode.NON_EMPTY_GROUP


# --- deleted topics ---


def test_the_offsets_of_a_deleted_topic_go_with_it(broker: Broker) -> None:
    broker.commit("orders", "bills", partitions=2)
    broker.commit("orders", group_id="other")
    broker.change_topics(broker.own, topic("bills"))
    broker.clean()
    assert (broker.kept(), broker.kept("other")) == ({"bills": [0, 1]}, {})


def test_the_offsets_of_a_topic_go_when_it_is_created_anew(broker: Broker) -> None:
    broker.commit("orders")
    broker.change_topics(broker.own, topic("orders", topic_id=b"n" * 16), topic("bills"))
    broker.clean()
    assert broker.kept() == {}


def test_topics_that_are_deleted_by_the_thousand_are_looked_at_in_steps(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{nth}" for nth in range(300)]
    broker.change_topics(broker.own, *map(topic, names))
    broker.commit("t7", "t295")
    looks: list[str] = []
    has_topic = ShardOffsets.has_topic

    def look(self: ShardOffsets, name: str) -> bool:
        looks.append(name)
        return has_topic(self, name)

    monkeypatch.setattr(ShardOffsets, "has_topic", look)
    monkeypatch.setattr(long_work, "SLICE", 50)
    broker.change_topics(broker.own)
    assert looks == []  # nothing is done while the image is applied
    most = done = 0
    for _ in slices(broker.cleaner.steps()):
        most, done = max(most, len(looks) - done), len(looks)
    assert (len(looks), most) == (300, 50)
    assert broker.shard.offsets.count == 0


def test_an_offset_of_the_new_topic_stays() -> None:
    broker = Broker(replicas=(1, 2))
    broker.commit("orders")
    broker.follow((2, 1), tp=PARTITION)
    broker.change_topics(broker.own, topic("orders", topic_id=b"n" * 16), topic("bills"))
    new = CommittedOffset(9, -1, "", 0, -1, b"n" * 16)
    broker.offsets.write(broker.shard, [OffsetChange("app", "orders", 0, new)], lambda code: None)
    broker.clean()
    assert broker.tombstones() == []


def test_other_changes_of_the_image_cost_nothing(broker: Broker) -> None:
    broker.commit("orders")
    broker.change_topics(broker.own, topic("orders", leader_epoch=1, partition_epoch=1), topic("bills"), topic("new"))
    assert broker.clean() == 0


# --- expiry ---


def test_offsets_of_a_group_that_never_had_members_expire_by_their_commit(broker: Broker) -> None:
    broker.commit("orders")
    broker.clock.advance_ms(MINUTE_MS)
    broker.commit("bills")
    broker.expire(WEEK_MS - MINUTE_MS - 1)
    assert broker.kept() == {"orders": [0], "bills": [0]}
    broker.expire(1)
    assert broker.kept() == {"bills": [0]}


def test_a_time_of_expiry_wins(broker: Broker) -> None:
    broker.commit("orders", expire_ms=broker.clock.wall_ms() + 1_000)
    broker.commit("bills", expire_ms=broker.clock.wall_ms() + 2 * WEEK_MS)
    broker.expire(1_000)
    assert broker.kept() == {"bills": [0]}
    broker.expire(WEEK_MS)
    assert broker.kept() == {"bills": [0]}


def test_the_group_tells_from_when_its_offsets_expire(broker: Broker) -> None:
    group = broker.add(AGroup("app"))
    group.expires_from_ms = None
    broker.commit("orders")
    broker.expire(2 * WEEK_MS)
    assert broker.kept() == {"orders": [0]}
    group.expires_from_ms = broker.clock.wall_ms()
    broker.expire(WEEK_MS)
    assert broker.kept() == {}


def test_kafka_13636_offsets_do_not_expire_while_a_newer_commit_waits_for_the_replicas() -> None:
    broker = Broker(replicas=(1, 2))
    broker.commit("orders")
    broker.follow((2, 1), tp=PARTITION)
    broker.clock.advance_ms(WEEK_MS)
    broker.commit("orders")
    broker.expire()
    assert broker.tombstones() == []


def test_an_empty_group_without_offsets_is_deleted(broker: Broker) -> None:
    broker.add(AGroup("app"))
    broker.add(AGroup("busy")).is_empty = False
    broker.commit("orders")
    broker.expire(WEEK_MS)
    broker.expire()
    assert list(broker.shard.groups) == ["busy"]
    assert broker.lifecycle.stopped == ["app"]


def test_offsets_of_a_topic_whose_deletion_was_missed_go_with_the_next_expiry(broker: Broker) -> None:
    broker.commit("orders", "bills")
    broker.set_topics(broker.own, topic("bills"))
    broker.expire()
    assert broker.kept() == {"bills": [0]}


def test_many_groups_are_checked_in_steps(broker: Broker) -> None:
    for nth in range(2_500):
        broker.shard.offsets.apply(OffsetChange(f"g{nth}", "orders", 0, CommittedOffset(7, -1, "", 0)))
    assert broker.expire() >= 3


def test_the_tombstone_of_an_offset_has_its_key() -> None:
    record = offset_record(OffsetChange("app", "orders", 3, None))
    assert record == NewRecord(b"\x00\x01\x00\x03app\x00\x06orders\x00\x00\x00\x03", None)


# --- offsets of open transactions ---


def test_a_group_is_deleted_with_the_offsets_of_open_transactions(broker: Broker) -> None:
    broker.commit("orders")
    broker.commit_in_transaction("orders", "bills")
    assert broker.delete() == [ErrorCode.NONE]
    assert len(broker.tombstones()) == 2
    broker.end_transaction()
    assert broker.kept() == {}


def test_offsets_of_open_transactions_are_deleted_on_request(broker: Broker) -> None:
    broker.commit_in_transaction("orders", "bills")
    assert broker.delete_offsets(("orders", 0), ("orders", 1)) == [[ErrorCode.NONE, ErrorCode.NONE]]
    assert len(broker.tombstones()) == 1
    broker.end_transaction()
    assert broker.kept() == {"bills": [0]}


def test_the_offsets_of_a_deleted_topic_go_with_it_also_those_of_open_transactions(broker: Broker) -> None:
    broker.commit("orders")
    broker.commit_in_transaction("orders", "bills")
    broker.commit_in_transaction("orders", group_id="other")
    broker.change_topics(broker.own, topic("bills"))
    broker.clean()
    broker.end_transaction()
    assert (broker.kept(), broker.kept("other")) == ({"bills": [0]}, {})


def test_a_transactions_offset_of_the_new_topic_stays(broker: Broker) -> None:
    broker.commit("orders")
    new = CommittedOffset(9, -1, "", 0, -1, b"n" * 16)
    broker.offsets.write(broker.shard, [OffsetChange("app", "orders", 0, new)], lambda code: None, producer=PRODUCER)
    broker.change_topics(broker.own, topic("orders", topic_id=b"n" * 16), topic("bills"))
    broker.clean()
    broker.end_transaction()
    assert broker.offsets.offsets_of("app")["orders"][0] == new


def test_an_offset_that_an_open_transaction_may_change_does_not_expire(broker: Broker) -> None:
    broker.commit("orders", "bills")
    broker.commit_in_transaction("orders")
    broker.expire(WEEK_MS)
    assert broker.kept() == {"orders": [0]}
    broker.end_transaction()
    broker.expire()
    assert broker.kept() == {}


def test_an_empty_group_whose_only_offsets_are_of_an_open_transaction_stays(broker: Broker) -> None:
    broker.add(AGroup("app"))
    broker.commit_in_transaction("orders")
    broker.expire(WEEK_MS)
    assert list(broker.shard.groups) == ["app"]
