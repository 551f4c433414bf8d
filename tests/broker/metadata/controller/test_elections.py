"""Leader elections and eligible leader replicas; test_safety.py has the invariants over all orders of decisions."""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.config.dynamic import dynamic_keys
from purgatorio.broker.metadata.controller import (
    ElectionType,
    PreferredElections,
    alter_broker_configs,
    alter_topic_configs,
    elect_leaders,
    replacing,
)
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.protocol.errors import ErrorCode
from tests.broker.metadata.controller.harness import (
    SETTINGS,
    TP,
    elect,
    fence,
    partition,
    propose,
    restart,
    resume,
    with_orders,
)


def test_the_next_in_sync_replica_leads_in_the_order_of_the_replicas(three: ClusterImage) -> None:
    state = partition(fence(with_orders(three, (2, 3, 1)), 2))
    assert (state.leader, state.leader_epoch, state.isr_ids) == (3, 1, (3, 1))


def test_the_elr_is_empty_while_the_isr_has_min_insync_replicas(orders: ClusterImage) -> None:
    assert partition(fence(orders, 3)).elr == ()


def test_a_replica_that_leaves_a_too_small_isr_stays_eligible_and_leads_when_the_last_one_dies(
    orders: ClusterImage,
) -> None:
    image = fence(orders, 3, 2)
    assert (partition(image).isr_ids, partition(image).elr_ids) == ((1,), (2,))
    image = resume(image, 2)
    assert (partition(image).isr_ids, partition(image).elr_ids) == ((1,), (2,)), "broker 2 has yet to catch up"
    image = fence(image, 1)
    state = partition(image)
    assert (state.leader, state.isr_ids, state.elr_ids) == (2, (2,), (1,))


def test_an_eligible_replica_that_restarts_is_not_eligible_any_more(orders: ClusterImage) -> None:
    image = restart(fence(orders, 3, 2), 2)
    assert partition(image).elr == ()
    assert partition(fence(image, 1)).leader == NO_LEADER


def test_the_elr_is_emptied_when_the_isr_has_min_insync_replicas_again(orders: ClusterImage) -> None:
    image = resume(resume(fence(orders, 3, 2), 3), 2)
    image, code = propose(image, 1, 3)
    assert code is ErrorCode.NONE
    assert (partition(image).isr_ids, partition(image).elr) == ((1, 3), ())


def test_a_smaller_min_insync_replicas_ends_eligibility(orders: ClusterImage) -> None:
    image = fence(orders, 3, 2)
    assert partition(image).elr_ids == (2,)
    image, _ = alter_topic_configs(image, "orders", replacing({"min.insync.replicas": "1"}), settings=SETTINGS)
    assert partition(image).elr == ()


def test_a_smaller_min_insync_replicas_of_all_brokers_ends_eligibility_unless_the_topic_has_its_own(
    three: ClusterImage, orders: ClusterImage
) -> None:
    inheriting = three.with_topics([replace(orders.topics["orders"], configs={})])
    inheriting = fence(min_insync_of_all(inheriting, "2"), 3, 2)
    assert partition(inheriting).elr_ids == (2,)
    assert partition(min_insync_of_all(inheriting, "1")).elr == ()
    own = fence(min_insync_of_all(orders, "2"), 3, 2)
    assert partition(min_insync_of_all(own, "1")).elr_ids == (2,)


def min_insync_of_all(image: ClusterImage, number: str) -> ClusterImage:
    edit = replacing({"min.insync.replicas": number})
    return alter_broker_configs(image, "", edit, keys=dynamic_keys(), static={}, settings=SETTINGS)


def test_with_min_insync_replicas_1_an_elected_eligible_replica_empties_the_elr(orders: ClusterImage) -> None:
    image = fence(orders, 3, 2, 1)
    assert partition(image).elr_ids == (1, 2)
    image, _ = alter_topic_configs(image, "orders", replacing({"min.insync.replicas": "1"}), settings=SETTINGS)
    image = resume(image, 2)
    assert (partition(image).isr_ids, partition(image).elr) == ((2,), ())
    image = resume(fence(image, 2), 1)
    assert partition(image).leader == NO_LEADER


def test_a_preferred_election_makes_the_preferred_leader_lead_again(orders: ClusterImage) -> None:
    image = resume(fence(orders, 1), 1)
    assert partition(image).leader == 2
    assert elect(image, ElectionType.PREFERRED)[1] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert PreferredElections(1).wanted(image) == []
    image, _ = propose(image, 2, 3, 1)
    assert PreferredElections(1).wanted(image) == [TP]
    image, code = elect(image, ElectionType.PREFERRED)
    assert (code, partition(image).leader, partition(image).leader_epoch) == (ErrorCode.NONE, 1, 2)
    assert elect(image, ElectionType.PREFERRED) == (image, ErrorCode.ELECTION_NOT_NEEDED)


def test_an_unclean_election_elects_a_live_replica_of_a_partition_without_a_leader(orders: ClusterImage) -> None:
    assert elect(orders, ElectionType.UNCLEAN) == (orders, ErrorCode.ELECTION_NOT_NEEDED)
    image = restart(restart(fence(orders, 3, 2, 1), 1), 3)
    assert partition(image).leader == NO_LEADER
    image, code = elect(image, ElectionType.UNCLEAN)
    state = partition(image)
    assert (code, state.leader, state.isr_ids, state.elr) == (ErrorCode.NONE, 1, (1,), ())
    all_fenced = fence(orders, 1, 2, 3)
    assert elect(all_fenced, ElectionType.UNCLEAN) == (all_fenced, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def test_the_election_of_an_unknown_partition_is_refused_and_others_are_held(orders: ClusterImage) -> None:
    image = resume(fence(orders, 1), 1)
    image, _ = propose(image, 2, 3, 1)
    asked = [("orders", 7), TP, TP, ("nowhere", 0)]
    image, results = elect_leaders(image, asked, ElectionType.PREFERRED, settings=SETTINGS)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [result.error for result in results] == [unknown, ErrorCode.NONE, unknown]
    assert partition(image).leader == 1
