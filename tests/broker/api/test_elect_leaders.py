"""ElectLeaders: preferred leaders come back, unclean ones are asked for, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import elect_leaders
from purgatorio.broker.metadata.controller import InSyncProposal, TopicSettings, change_in_sync_sets, register_broker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.endpoints import plaintext

PREFERRED, UNCLEAN = 0, 1


def request(election: int, *partitions: int, topic: str = "orders", timeout_ms: int = 1000) -> ElectLeadersRequest:
    named = [TopicPartitions(topic=topic, partitions=list(partitions))] if partitions else None
    return ElectLeadersRequest(election_type=election, topic_partitions=named, timeout_ms=timeout_ms)


def results(response: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, partition.partition_id, partition.error_code)
        for topic in response.replica_election_results
        for partition in topic.partition_result
    ]


def bring_back(cluster: Any, broker_id: int) -> None:
    """A broker that left registers again, and joins every in-sync set."""
    cluster.change(lambda image: register_broker(image, broker_id, plaintext("host", 1), settings=TopicSettings()))
    for topic in cluster.image.topics.values():
        for index, state in enumerate(topic.partitions):
            leader = cluster.image.brokers[state.leader].incarnation
            isr = (*state.isr, cluster.image.brokers[broker_id].incarnation)
            proposal = InSyncProposal(topic.topic_id, topic.name, index, state.leader_epoch, state.partition_epoch, isr)
            cluster.change(
                lambda image, leader=leader, proposal=proposal: change_in_sync_sets(
                    image, leader, [proposal], settings=TopicSettings()
                )
            )


@pytest.mark.parametrize("version", range(3))
def test_every_version_elects_the_preferred_leader_and_answers_each_partition(cluster: Any, version: int) -> None:
    preferred = cluster.create("orders", 3).partitions[0].leader
    cluster.stop(preferred)
    bring_back(cluster, preferred)
    assert cluster.image.partition("orders", 0).leader != preferred
    response = cluster.ask(elect_leaders, version, request(PREFERRED, 0, 9))
    assert results(response) == [
        ("orders", 0, ErrorCode.NONE),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert cluster.image.partition("orders", 0).leader == preferred


def test_asked_for_all_it_names_only_those_where_there_was_something_to_do(cluster: Any) -> None:
    topic = cluster.create("orders", 3)
    gone = topic.partitions[0].leader
    cluster.stop(gone)
    bring_back(cluster, gone)
    assert results(cluster.ask(elect_leaders, 2, request(PREFERRED))) == [("orders", 0, ErrorCode.NONE)]
    assert results(cluster.ask(elect_leaders, 2, request(PREFERRED))) == []
    assert results(cluster.ask(elect_leaders, 2, request(PREFERRED, 0))) == [
        ("orders", 0, ErrorCode.ELECTION_NOT_NEEDED)
    ]


def test_an_unclean_election_brings_a_partition_back_that_lost_all_its_replicas(cluster: Any) -> None:
    leader = cluster.create("orders", factor=1).partitions[0].leader
    cluster.stop(leader)
    assert results(cluster.ask(elect_leaders, 2, request(UNCLEAN, 0))) == [
        ("orders", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    ]
    cluster.change(lambda image: register_broker(image, leader, plaintext("host", 1), settings=TopicSettings()))
    assert cluster.image.partition("orders", 0).leader == -1
    assert results(cluster.ask(elect_leaders, 2, request(UNCLEAN, 0))) == [("orders", 0, ErrorCode.NONE)]
    assert cluster.image.partition("orders", 0).leader == leader


def test_an_election_of_another_kind_is_refused(cluster: Any) -> None:
    cluster.create("orders")
    response = cluster.ask(elect_leaders, 1, request(7, 0))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert results(response) == [("orders", 0, ErrorCode.INVALID_REQUEST)]


def test_a_store_that_does_not_answer_keeps_nobody_waiting_longer_than_asked(cluster: Any) -> None:
    cluster.create("orders")
    reply = cluster.send(elect_leaders, 2, request(PREFERRED, 0, timeout_ms=500))
    (waiting,) = cluster.admin.purgatories.elections.operations(10)
    assert waiting.missing == "the metadata store has not decided yet"
    assert [str(key) for key in waiting.keys] == ["orders-0"]
    cluster.pass_ms(501)
    (response,) = reply.responses
    assert results(response) == [("orders", 0, ErrorCode.REQUEST_TIMED_OUT)]
    cluster.turns.run()
    assert len(reply.responses) == 1


def test_of_two_elections_the_deadline_answers_only_the_one_that_is_not_seen(cluster: Any) -> None:
    """The store has decided, and this broker's image does not show it yet, as a store out of the process may do."""
    preferred = cluster.create("orders", 3).partitions[0].leader
    cluster.stop(preferred)
    bring_back(cluster, preferred)
    cluster.see_only(cluster.image)
    reply = cluster.send(elect_leaders, 2, request(PREFERRED, 0, 9))
    cluster.turns.run()
    (waiting,) = cluster.admin.purgatories.elections.operations(10)
    assert waiting.missing == f"orders-0: broker {preferred} does not lead yet"
    cluster.pass_ms(1001)
    (response,) = reply.responses
    assert response.error_code == ErrorCode.NONE
    assert results(response) == [
        ("orders", 0, ErrorCode.REQUEST_TIMED_OUT),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("timeout_ms", [1000, 0, -1], ids=["in time", "at once", "less than at once"])
def test_an_unclean_election_is_logged_even_if_nobody_waits_for_it(
    cluster: Any, timeout_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    leader = cluster.create("orders", factor=1).partitions[0].leader
    cluster.stop(leader)
    cluster.change(lambda image: register_broker(image, leader, plaintext("host", 1), settings=TopicSettings()))
    response = cluster.ask(elect_leaders, 2, request(UNCLEAN, 0, timeout_ms=timeout_ms))
    expected = ErrorCode.NONE if timeout_ms > 0 else ErrorCode.REQUEST_TIMED_OUT
    assert results(response) == [("orders", 0, expected)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "partition=orders-0" in caplog.text


@pytest.mark.parametrize("version", range(3))
def test_a_whole_request_can_be_answered_with_an_error(cluster: Any, version: int) -> None:
    code = ErrorCode.NOT_CONTROLLER
    seen = cluster.travel(version, elect_leaders.error_response(request(PREFERRED, 0), code))
    assert seen.error_code == (code if version >= 1 else ErrorCode.NONE)
    assert results(seen) == [("orders", 0, code)]
    everything = cluster.travel(version, elect_leaders.error_response(request(PREFERRED), code))
    assert results(everything) == []
