"""Groups of all protocols as observers see them; those of the classic one are looked at in tests/admin/web, too."""

from __future__ import annotations

import pytest

from purgatorio.broker.group import overview as overviews
from purgatorio.broker.group.overview import GroupOverview, MemberOverview, members, overview
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness
from tests.broker.group.share.harness import Member as ShareMember
from tests.broker.group.share.harness import ShareHarness, settle


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness(consumer_session_timeout_ms=45_000)


def seen(broker: ConsumerHarness) -> GroupOverview:
    found = overview(broker.groups, broker.groups.coordinator.shard_of("app"), "app")
    assert found is not None
    return found


def seen_members(broker: ConsumerHarness) -> list[MemberOverview]:
    return members(broker.group(), broker.image, 10)


def test_a_stable_group_of_the_consumer_protocol(broker: ConsumerHarness) -> None:
    consumers = [Consumer(broker, "first", ["orders", "bills"]), Consumer(broker, "second", instance_id="static")]
    broker.settle(*consumers)
    broker.advance_ms(1_000)
    assert seen(broker) == GroupOverview(
        "app", "consumer", "Stable", "consumer", "uniform", broker.group().epoch, member_count=2, waits_for=""
    )
    first, second = seen_members(broker)
    assert (first.client_id, first.host, first.instance_id, second.instance_id) == ("app", "127.0.0.1", None, "static")
    assert first.owned is not None
    assert (list(first.owned), first.owned["bills"]) == (["bills", "orders"], (0, 1))
    assert (first.waits_for, second.waits_for) == ("", "")
    assert first.session_deadline_ms == broker.clock.now_ms() + 44_000
    assert first.session_timeout_ms == 45_000


def test_a_group_that_reconciles_names_the_members_that_have_to_give_up_partitions(broker: ConsumerHarness) -> None:
    first, second = Consumer(broker, "first"), Consumer(broker, "second")
    broker.settle(first)
    second.beat()
    assert seen(broker).waits_for == "epoch 2 of app waits for a heartbeat of member first"
    assert [each.waits_for for each in seen_members(broker)] == [
        "reaches epoch 2 at its next heartbeat",
        "waits for partitions that others own",
    ]
    first.beat()
    assert seen(broker).waits_for == "epoch 2 of app waits for member first to give up partitions"
    assert seen_members(broker)[0].waits_for == "has to give up orders-3, orders-4 and orders-5"
    broker.settle(first, second)
    assert seen(broker).waits_for == ""


def test_a_static_member_that_is_away_is_said_to_be(broker: ConsumerHarness) -> None:
    consumer = Consumer(broker, "first", instance_id="static")
    broker.settle(consumer)
    consumer.leave(-2)
    assert [each.waits_for for each in seen_members(broker)] == ["has left for a while"]


def test_partitions_of_a_deleted_topic_are_left_out(broker: ConsumerHarness) -> None:
    broker.settle(Consumer(broker, "first", ["orders", "bills"]))
    broker.create(bills=2)
    (member,) = seen_members(broker)
    assert member.owned == {"bills": (0, 1)}


def test_many_members_are_named_in_part(broker: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "MAX_NAMED", 2)
    consumers = [Consumer(broker, f"m{number}") for number in range(4)]
    broker.settle(*consumers)
    broker.create(orders=12, bills=2)
    consumers[0].beat()
    assert seen(broker).waits_for.endswith(" waits for a heartbeat of members m1, m2 and 1 more")


def test_a_group_that_does_not_exist_is_not_seen(broker: ConsumerHarness) -> None:
    shard = broker.groups.coordinator.shard_of("app")
    assert overview(broker.groups, shard, "app") is None
    assert shard.group_ids() == []


# --- share groups ---


def seen_share(broker: ShareHarness) -> GroupOverview:
    found = overview(broker.groups, broker.groups.coordinator.shard_of("app"), "app")
    assert found is not None
    return found


def test_a_share_group_tells_its_members_with_their_partitions() -> None:
    broker = ShareHarness()
    one, two = ShareMember(broker, "a"), ShareMember(broker, "b", ["orders", "bills"])
    settle(one, two)
    broker.advance_ms(1_000)
    epoch = broker.group().epoch
    assert seen_share(broker) == GroupOverview(
        "app", "share", "Stable", "share", "simple", epoch, member_count=2, waits_for=""
    )
    first, second = members(broker.group(), broker.image, 10)
    assert (first.client_id, first.host, first.instance_id, first.epoch) == ("shop", "127.0.0.1", None, epoch)
    assert (first.waits_for, second.waits_for, first.session_timeout_ms) == ("", "", 45_000)
    assert first.session_deadline_ms == broker.clock.now_ms() + 44_000
    assert (first.owned, second.owned) == ({"orders": (0, 1)}, {"bills": (0, 1), "orders": (2,)})


def test_a_share_group_names_the_partitions_without_state_then_the_members_that_do_not_know_their_assignment() -> None:
    broker = ShareHarness()
    one, two = ShareMember(broker, "a"), ShareMember(broker, "b")
    broker.persister.is_held = True
    broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["orders"])
    assert seen_share(broker).waits_for.startswith("app waits for orders-0, orders-1, orders-2: the share coordinator")
    broker.persister.is_held = False
    broker.persister.release()
    settle(one)
    two.beat()
    epoch = broker.group().epoch
    assert seen_share(broker).waits_for == f"epoch {epoch} of app waits for a heartbeat of member a"
    assert [each.waits_for for each in members(broker.group(), broker.image, 10)] == [
        f"reaches epoch {epoch} at its next heartbeat",
        "",
    ]
