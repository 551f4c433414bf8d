"""Share groups over snapshots, resets and fault rules, as members see it over sockets of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.broker.metadata.store import decide
from purgatorio.protocol.errors import ErrorCode
from purgatorio.testing import Kafka, cluster
from tests.testing.sharing import ShareMember

pytestmark = pytest.mark.slow

Join = Callable[[str], ShareMember]


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """One broker, which leads orders and coordinates everything."""
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        yield kafka


@pytest.fixture
def join(kafka: Kafka) -> Iterator[Join]:
    """Return what makes a member of group "jobs", which reads orders, with an open session."""
    members: list[ShareMember] = []

    def joined(member_id: str) -> ShareMember:
        broker = running(kafka)
        topic_id = broker.image.topics["orders"].topic_id
        member = ShareMember(broker.address, "jobs", member_id, topic_id)
        members.append(member)
        member.find_coordinator()
        assert member.heartbeat(0, "orders").error_code == ErrorCode.NONE
        member.fetch(max_wait_ms=1)
        return member

    yield joined
    for member in members:
        member.__exit__(None, None, None)


def running(kafka: Kafka) -> Any:
    return kafka._cluster.brokers[0]


def configure(kafka: Kafka, **configs: str) -> None:
    """Set configs of group "jobs"."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    changed = decide(running(kafka).store, lambda image: (image.with_group_configs("jobs", named), None))
    kafka._thread.run(changed, "configure the group")


# --- snapshots ---


def test_a_snapshot_has_what_a_share_group_has_done_its_members_and_its_configs(kafka: Kafka, join: Join) -> None:
    configure(kafka, share_delivery_count_limit="2")
    ada = join("ada")
    kafka.produce("orders", "a", "b", "c", "d")
    assert ada.fetch() == [(0, 3, 1)]
    assert ada.acknowledge(0, 0) == 0
    assert ada.acknowledge(2, 2) == 0
    snapshot = kafka.snapshot()
    assert ada.acknowledge(1, 1) == 0
    configure(kafka, share_delivery_count_limit="9")
    for _ in range(2):
        kafka.restore(snapshot)
        group = kafka.group("jobs")
        assert group is not None
        assert group.members == ("ada",)
        assert running(kafka).image.group_configs == {"jobs": {"share.delivery.count.limit": "2"}}
        join("bob")
        shared = kafka.share_group("jobs")
        assert [(each.first_offset, each.state, each.member) for each in shared.in_flight()] == [
            (1, "acquired", "bob"),
            (2, "acknowledged", None),
            (3, "acquired", "bob"),
        ], "ada's locks are not saved, as they would not outlive the leader"
        assert shared.start_offsets() == {("orders", 0): 1}


# --- reset ---


def test_a_reset_forgets_share_groups_with_their_locks_and_states(kafka: Kafka, join: Join) -> None:
    configure(kafka, share_auto_offset_reset="earliest")
    kafka.produce("orders", "a")
    assert join("ada").fetch() == []
    kafka.share_group("jobs").until_acquired().wait()
    kafka.reset()
    assert kafka.group("jobs") is None
    assert kafka.parked(api="AcquisitionLock") == []
    shared = kafka.share_group("jobs")
    assert (shared.members, shared.in_flight(), shared.start_offsets()) == ([], [], {})
    assert running(kafka).image.group_configs == {}
    assert set(running(kafka).image.topics) == set(), "the state topic is gone, too"
    kafka.topic("orders")
    kafka.produce("orders", "before the group")
    join("ada")
    assert shared.start_offsets() == {("orders", 0): 1}, "latest again"


# --- fault rules ---


def test_a_rule_about_a_topic_meets_fetches_that_do_not_name_it(kafka: Kafka, join: Join) -> None:
    """Requests of a share session name only what has changed."""
    kafka.produce("orders", "a")
    ada = join("ada")
    kafka.produce("orders", "b")
    other = kafka.fault(api="ShareFetch", topic="payments", error="TOPIC_AUTHORIZATION_FAILED")
    rule = kafka.fault(api="ShareFetch", topic="orders", error="KAFKA_STORAGE_ERROR", count=1)
    ada.send_fetch(named=False)
    assert ada.refusal() == ErrorCode.KAFKA_STORAGE_ERROR
    assert (rule.fired, other.matched) == (1, 0)
    assert kafka.share_group("jobs").acquired() == []


def test_a_lost_acknowledgement_is_delivered_again(kafka: Kafka, join: Join) -> None:
    ada = join("ada")
    kafka.produce("orders", "a")
    assert ada.fetch() == [(0, 0, 1)]
    other = kafka.fault(api="ShareAcknowledge", group="others", error="INVALID_RECORD_STATE")
    rule = kafka.fault(api="ShareAcknowledge", group="jobs", topic="orders", disconnect="before", count=1)
    with pytest.raises(ConnectionResetError):
        ada.acknowledge(0, 0)
    assert (rule.fired, other.matched) == (1, 0)
    bob = join("bob")
    assert [(each.member, each.delivery_count) for each in kafka.share_group("jobs").acquired()] == [("bob", 2)]
    assert bob.acknowledge(0, 0) == 0


def test_a_refused_write_of_the_state_is_the_members_error_and_the_record_stays_its(kafka: Kafka, join: Join) -> None:
    ada = join("ada")
    kafka.produce("orders", "a")
    assert ada.fetch() == [(0, 0, 1)]
    refused = kafka.fault(
        api="WriteShareGroupState", group="jobs", topic="orders", error="UNKNOWN_SERVER_ERROR", count=1
    )
    assert ada.acknowledge(0, 0) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert refused.fired == 1
    (held,) = kafka.share_group("jobs").acquired()
    assert held.member == "ada"
    assert ada.acknowledge(0, 0) == 0


def test_a_state_that_cannot_be_appended_is_tried_again_in_the_brokers_time(kafka: Kafka, join: Join) -> None:
    ada = join("ada")
    kafka.produce("orders", "a")
    assert ada.fetch() == [(0, 0, 1)]
    rule = kafka.fault(api="WriteShareGroupState", error="COORDINATOR_NOT_AVAILABLE", count=2)
    kafka.clock.freeze()  # the waits of 0.1 and 0.2 s would be over before this test sees them on a busy machine
    ada.send_acknowledge(0, 0)
    for nth in (1, 2):
        rule.until_fired(nth).wait()
        (waits,) = kafka.until_parked(api="Persister").wait()
        assert "COORDINATOR_NOT_AVAILABLE" in waits.missing
        kafka.clock.advance(waits.left_ms / 1_000)
    kafka.clock.unfreeze()
    assert ada.acknowledged() == 0
    assert kafka.share_group("jobs").start_offsets() == {("orders", 0): 1}


def test_members_of_a_fenced_state_ask_for_the_leader_again(kafka: Kafka, join: Join) -> None:
    configure(kafka, share_auto_offset_reset="earliest")
    ada = join("ada")
    kafka.produce("orders", "a")
    assert ada.fetch() == [(0, 0, 1)]
    kafka.fault(api="WriteShareGroupState", error="FENCED_STATE_EPOCH", count=1)
    assert ada.acknowledge(0, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ada.fetch() == [(0, 0, 1)], "the state is read anew; the delivery was not written"
