"""Which groups a broker coordinates, and how they come and go with their partition."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.coordinator.coordinator_log import RETRY_MS, NewRecord
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.memory import GroupMemory
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import GroupMetadataKey, GroupMetadataValue, encode_key, encode_value
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.harness import PARTITION, GroupHarness
from tests.broker.time.by_hand import turns_of


class Loaded:
    """Stands for the coordinator of one kind of group; its groups are plain objects."""

    type = "classic"
    member_count = 4

    def __init__(self, group_id: str, log: list[tuple[str, str]]) -> None:
        self.group_id = group_id
        self.log = log
        self.memory = GroupMemory()


class Lifecycle:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def replay(self, shard: GroupShard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        self.events.append(("replayed", key.group_id))
        if value is None:
            if key.group_id in shard.groups:
                shard.remove(key.group_id)
        else:
            shard.put(Loaded(key.group_id, self.events))  # type: ignore[arg-type]

    def loaded(self, shard: GroupShard, group: Any) -> None:
        self.events.append(("loaded", group.group_id))

    def unloaded(self, shard: GroupShard, group: Any) -> None:
        self.events.append(("unloaded", group.group_id))


def record(group_id: str, generation: int | None = 1) -> NewRecord:
    """A group's record; without a generation, its tombstone."""
    value = None
    if generation is not None:
        value = encode_value(GroupMetadataValue(protocol_type="consumer", generation=generation))
    return NewRecord(encode_key(GroupMetadataKey(group_id=group_id)), value)


class Coordinated:
    """A coordinator of groups that only remember what happened to them."""

    def __init__(self, broker: GroupHarness) -> None:
        self.broker = broker
        self.lifecycle = Lifecycle()
        self.coordinator = GroupCoordinator(
            broker.groups.coordinator.services,
            broker.replicas,
            replays={GroupMetadataKey: self.lifecycle.replay},
        )
        self.coordinator.lifecycles = {"classic": self.lifecycle}

    def work(self) -> int:
        return turns_of(self.coordinator.steps())

    def refusal(self, group_id: str = "app") -> ErrorCode:
        with pytest.raises(CoordinatorError) as refused:
            self.coordinator.shard_of(group_id)
        return refused.value.error_code

    def append(self, *records: NewRecord) -> list[ErrorCode]:
        done: list[ErrorCode] = []
        self.coordinator.services.log.append(PARTITION, records, done.append)
        return done


@pytest.fixture
def groups() -> Coordinated:
    """Broker 1 leads the partition alone, and has loaded it: it was empty."""
    broker = GroupHarness()
    made = Coordinated(broker)
    broker.elect(1, 1, replicas=(1,))
    return made


def test_an_empty_partition_is_loaded_at_once(groups: Coordinated) -> None:
    assert groups.coordinator.shard_of("app").is_active
    assert groups.work() == 0


def test_a_broker_that_does_not_lead_the_partition_is_not_the_coordinator(groups: Coordinated) -> None:
    groups.broker.elect(2, 2)
    assert groups.refusal() == ErrorCode.NOT_COORDINATOR


def test_a_broker_whose_lease_is_in_doubt_is_not_the_coordinator(groups: Coordinated) -> None:
    groups.broker.may_lead = False
    assert groups.refusal() == ErrorCode.NOT_COORDINATOR


def test_without_the_topic_no_coordinator_is_available(groups: Coordinated) -> None:
    groups.broker.set_topics()
    assert groups.refusal() == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_broker_that_is_elected_replays_the_log_and_answers_load_in_progress_meanwhile(groups: Coordinated) -> None:
    assert groups.append(record("app"), record("gone"), record("gone", None)) == [ErrorCode.NONE]
    groups.broker.elect(1, 2, replicas=(1,))
    assert groups.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.work()
    assert list(groups.coordinator.shard_of("app").groups) == ["app"]
    assert groups.lifecycle.events[-1] == ("loaded", "app")


def test_a_long_log_is_replayed_in_steps(groups: Coordinated) -> None:
    for first in range(0, 1_000, 500):
        groups.append(*(record(f"group-{nth}") for nth in range(first, first + 500)))
    groups.broker.elect(1, 2, replicas=(1,))
    assert groups.work() >= 5 + 10  # at most 200 records, or 100 groups of 4 members to start, in each
    assert len(groups.coordinator.shard_of("app").groups) == 1_000


def test_what_is_not_committed_yet_is_not_answered_from() -> None:
    broker = GroupHarness(replicas=(1, 2))
    groups = Coordinated(broker)
    broker.elect(1, 1)
    groups.append(record("app"))
    broker.elect(1, 2)
    groups.work()
    assert groups.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.follow((2, 1), tp=PARTITION)
    groups.work()
    assert list(groups.coordinator.shard_of("app").groups) == ["app"]


def test_a_broker_without_a_lease_waits_for_it_to_load_its_groups(groups: Coordinated) -> None:
    groups.append(record("app"))
    groups.broker.elect(1, 2, replicas=(1,))
    groups.broker.may_lead = False
    groups.work()
    groups.broker.may_lead = True
    assert groups.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.broker.advance_ms(RETRY_MS + 1)
    groups.work()
    assert groups.coordinator.shard_of("app").is_active


def test_a_broker_that_loses_the_partition_drops_its_groups(groups: Coordinated) -> None:
    groups.append(record("app"))
    groups.broker.elect(1, 2, replicas=(1,))
    groups.work()
    shard = groups.coordinator.shard_of("app")
    groups.broker.elect(2, 3)
    assert shard.state is ShardState.UNLOADED
    groups.work()
    assert groups.lifecycle.events[-1] == ("unloaded", "app")


def test_kafka_10614_a_partition_that_is_lost_while_it_is_loaded_is_not_loaded(groups: Coordinated) -> None:
    groups.append(*(record(f"group-{nth}") for nth in range(500)))
    groups.broker.elect(1, 2, replicas=(1,))
    steps = groups.coordinator.steps()
    next(steps)
    groups.broker.elect(2, 3)
    for _ in steps:
        pass
    assert ("loaded", "group-0") not in groups.lifecycle.events
    assert groups.refusal() == ErrorCode.NOT_COORDINATOR


def test_a_malformed_record_is_skipped_and_logged(groups: Coordinated, caplog: pytest.LogCaptureFixture) -> None:
    groups.append(NewRecord(b"\x00\x02\xff", b""), NewRecord(b"\x7f\x00", b"of a type to come"), record("app"))
    groups.broker.elect(1, 2, replicas=(1,))
    groups.work()
    assert list(groups.coordinator.shard_of("app").groups) == ["app"]
    assert [each.message for each in caplog.records if "skipped" in each.message]
