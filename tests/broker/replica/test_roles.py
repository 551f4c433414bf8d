"""Replicas get their roles in steps, and in the end those of the newest image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.roles import MAX_CONFIGS_KEPT, ReplicaRoles
from purgatorio.purgatory.clock import ManualClock
from tests.broker.replica.harness import Observed, topic
from tests.logs import capture_logs

ME = BrokerIncarnation(1, 1)
STEP = 3


class Place:
    """The replicas of broker 1, and the image that they are given next."""

    def __init__(self, roles_per_step: int = STEP) -> None:
        lookup = ReplicaLookup(ME.broker_id)
        self.partitions: dict[TopicPartition, Partition] = lookup.partitions
        self.observed = Observed()
        self.roles = ReplicaRoles(
            lookup,
            new_log=lambda tp, config: Log(config, name=str(tp)),
            log_defaults=LogConfig(),
            clock=ManualClock(),
            lease=SimpleNamespace(may_lead=lambda: True),
            observer=self.observed,
        )
        self.roles.roles_per_step = roles_per_step
        self.image = ClusterImage(1, "test")
        self.told: dict[int, dict[TopicPartition, Partition]] = {}

    def note(self, image: ClusterImage) -> None:
        """Commit an image, and note it."""
        self.image = image.with_version(self.image.version + 1)
        self.roles.note(self.image)

    def change(self, change: Callable[[PartitionState], PartitionState], *names: tuple[str, int]) -> None:
        """Note an image in which these partitions have changed."""
        states = {name: change(self.image.topics[name[0]].partitions[name[1]]) for name in names}
        self.note(self.image.with_partitions(states))

    def step(self) -> list[str]:
        return [str(tp) for tp in self.roles.step(ME)]

    def tell(self) -> None:
        """Follow what has changed, as fetchers do."""
        for leader, changes in self.roles.take_refollowed().items():
            followed = self.told.setdefault(leader, {})
            for tp, partition in changes.ended.items():
                assert followed.pop(tp, partition) is partition
            followed.update(changes.begun)

    def finish(self) -> None:
        while not self.roles.is_current:
            self.step()


@pytest.fixture
def place() -> Place:
    return Place()


def led_by(leader: int) -> Callable[[PartitionState], PartitionState]:
    return lambda state: replace(
        state, leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
    )


def test_a_step_takes_some_partitions_of_a_created_topic(place: Place) -> None:
    place.note(place.image.with_topics([topic("a", partitions=5)]))
    assert not place.roles.is_current
    assert place.step() == ["a-0", "a-1", "a-2"]
    assert not place.roles.is_current
    assert place.step() == ["a-3", "a-4"]
    assert place.roles.is_current
    assert place.step() == []


def test_replicas_that_the_broker_has_come_before_new_ones(place: Place) -> None:
    place.note(place.image.with_topics([topic("old", partitions=2)]))
    place.finish()
    place.note(place.image.with_topics([topic("new", partitions=5)]))
    place.change(led_by(2), ("old", 1))
    assert place.step() == ["old-1", "new-0", "new-1"]


def test_a_partition_gets_the_role_that_the_newest_image_gives_it_and_once(place: Place) -> None:
    place.note(place.image.with_topics([topic("a", partitions=5)]))
    place.change(led_by(2), ("a", 4))
    place.change(led_by(3), ("a", 4))
    place.finish()
    assert place.partitions[TopicPartition("a", 4)].leader == 3
    assert place.partitions[TopicPartition("a", 4)].leader_epoch == 2
    assert place.step() == []


def test_a_topic_that_is_deleted_before_its_turn_leaves_nothing(place: Place) -> None:
    place.note(place.image.with_topics([topic("a", partitions=5)]))
    place.step()
    place.note(place.image.without_topics(["a"]))
    place.finish()
    assert place.partitions == {}


def test_a_topic_that_is_created_anew_before_its_turn_has_empty_logs(place: Place) -> None:
    place.note(place.image.with_topics([topic("a")]))
    place.finish()
    before = place.partitions[TopicPartition("a", 0)]
    place.note(place.image.without_topics(["a"]).with_topics([topic("a", topic_id=b"2" * 16)]))
    place.finish()
    assert place.partitions[TopicPartition("a", 0)] is not before
    assert place.partitions[TopicPartition("a", 0)].topic_id == b"2" * 16


def test_partitions_of_other_brokers_are_not_queued(place: Place) -> None:
    place.note(place.image.with_topics([topic("a", replicas=(2, 3), leader=2, partitions=9)]))
    assert place.roles.is_current


def test_a_changed_isr_leaves_what_is_fetched_from_whom_as_it_was(place: Place) -> None:
    place.note(place.image.with_topics([topic("a"), topic("b", leader=2)]))
    place.finish()
    assert (refollowed(place), place.roles.take_reassigned()) == ({2: (["b-0"], [])}, [2, 3])
    assigned = dict(place.roles.assignments)
    place.change(lambda state: replace(state, isr=state.isr[:2], partition_epoch=1), ("a", 0), ("b", 0))
    place.finish()
    assert (refollowed(place), place.roles.take_reassigned()) == ({}, [])
    assert place.roles.assignments == assigned


def test_what_is_followed_from_whom_changes_with_the_leader_and_its_epoch(place: Place) -> None:
    place.note(place.image.with_topics([topic("a"), topic("b", leader=2), topic("c", leader=2)]))
    place.finish()
    assert refollowed(place) == {2: (["b-0", "c-0"], [])}
    place.change(led_by(3), ("b", 0))
    place.change(led_by(2), ("c", 0))
    place.finish()
    assert refollowed(place) == {2: (["c-0"], ["b-0", "c-0"]), 3: (["b-0"], [])}
    place.change(led_by(2), ("b", 0))
    place.note(place.image.without_topics(["c"]))
    place.finish()
    place.change(led_by(1), ("b", 0))
    place.finish()
    assert refollowed(place) == {3: ([], ["b-0"]), 2: ([], ["c-0", "b-0"])}


def refollowed(place: Place) -> dict[int, tuple[list[str], list[str]]]:
    """Return by leader the names of the replicas that it is followed in from now on, and of those no longer."""
    taken = place.roles.take_refollowed()
    return {leader: ([*map(str, each.begun)], [*map(str, each.ended)]) for leader, each in taken.items()}


def test_an_error_of_one_replica_keeps_no_other_from_its_role(place: Place) -> None:
    class Failing:
        def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
            if tp.partition == 1:
                raise RuntimeError("a bug")

        def resigned(self, tp: TopicPartition) -> None:
            pass

    place.roles.add_listener(Failing())
    place.note(place.image.with_topics([topic("a", partitions=5)]))
    with capture_logs() as logged:
        place.finish()
    assert [(line["log_level"], line["partition"]) for line in logged] == [("error", "a-1")]
    assert len(place.partitions) == 5
    assert place.partitions[TopicPartition("a", 4)].is_leader


def test_topics_with_the_same_configs_share_a_configuration_and_a_bounded_number_is_kept(place: Place) -> None:
    place.note(place.image.with_topics([topic("a", retention_ms="5"), topic("b", retention_ms="5"), topic("c")]))
    place.finish()
    a, b, c = (place.partitions[TopicPartition(name, 0)].log.config for name in "abc")
    assert a is b
    assert (a.retention_ms, c) == (5, LogConfig())
    place.note(place.image.with_topics(topic(f"t{n}", retention_ms=str(n)) for n in range(MAX_CONFIGS_KEPT + 1)))
    place.finish()
    assert len(place.roles._configs) == MAX_CONFIGS_KEPT


def test_reconfigured_defaults_reach_all_logs(place: Place) -> None:
    place.note(place.image.with_topics([topic("a", retention_ms="5"), topic("b")]))
    place.finish()
    place.roles.reconfigure(LogConfig(retention_bytes=7))
    configs = [place.partitions[TopicPartition(name, 0)].log.config for name in "ab"]
    assert [(config.retention_ms, config.retention_bytes) for config in configs] == [
        (5, 7),
        (LogConfig().retention_ms, 7),
    ]


Change = tuple[str, str, int, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["lead", "lead", "isr", "move", "create", "delete", "grow", "configure", "step"]),
            st.sampled_from(["a", "b"]),
            st.integers(0, 3),
            st.sampled_from([1, 2, 3, NO_LEADER]),
        ),
        max_size=40,
    )
)
def test_any_images_and_steps_end_in_the_roles_of_the_last_image(changes: list[Change]) -> None:
    """Seen to fail: without the count of followers out, and without `ended` when a leader is followed."""
    place = Place()
    place.note(place.image.with_topics([topic("a", partitions=4)]))
    for nth, change in enumerate(changes):
        make(place, change, nth)
    place.finish()
    place.roles.take_reassigned()
    place.tell()
    assert place.told == place.roles.followed
    at_once = Place(roles_per_step=1_000)
    at_once.note(place.image)
    at_once.finish()
    at_once.roles.take_reassigned()
    assert seen(place) == seen(at_once)


def make(place: Place, change: Change, nth: int) -> None:
    kind, name, number, _ = change
    known = place.image.topics.get(name)
    if kind == "step":
        place.step()
        place.roles.take_reassigned()
        if number:
            place.tell()
    elif known is not None:
        alter(place, change, known)
    elif kind == "create":
        place.note(place.image.with_topics([topic(name, partitions=4, topic_id=bytes([nth] * 16))]))


def alter(place: Place, change: Change, known: Topic) -> None:
    """Note an image in which a topic that exists has changed."""
    kind, name, number, broker_id = change
    if kind == "lead":
        place.change(led_by(broker_id), (name, number))
    elif kind == "isr":
        place.change(lambda state: replace(state, partition_epoch=state.partition_epoch + 1), (name, number))
    elif kind == "move":
        replicas = tuple({1: (1, 2), 2: (2, 3), 3: (1, 2, 3, 4), NO_LEADER: (4, 1)}[broker_id])
        place.change(lambda state: replace(led_by(replicas[0])(state), replicas=replicas), (name, number))
    elif kind == "delete":
        place.note(place.image.without_topics([name]))
    elif kind == "grow":
        place.note(place.image.with_topics([replace(known, partitions=known.partitions + known.partitions[:1])]))
    elif kind == "configure":
        place.note(place.image.with_topics([replace(known, configs={"retention.ms": str(number)})]))


def seen(place: Place) -> object:
    """Return the roles, what is followed from whom, what followers should fetch, and the configs."""
    roles = {
        tp: (p.topic_id, p.leader, p.leader_epoch, p.replicas, p.partition_epoch, sorted(p.followers), p.log.config)
        for tp, p in place.partitions.items()
    }
    followed = {leader: set(partitions) for leader, partitions in place.roles.followed.items() if partitions}
    assignments = {follower: len(assigned) for follower, assigned in place.roles.assignments.items() if len(assigned)}
    return roles, followed, assignments
