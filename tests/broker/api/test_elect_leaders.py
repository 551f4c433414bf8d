"""Tests of the ElectLeaders handler: preferred and unclean elections, and deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import elect_leaders
from purgatorio.broker.causes.words import in_words
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
    """Register a broker again, and add it to every ISR."""
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


def test_a_request_for_all_partitions_lists_only_those_that_needed_an_election(cluster: Any) -> None:
    topic = cluster.create("orders", 3)
    gone = topic.partitions[0].leader
    cluster.stop(gone)
    bring_back(cluster, gone)
    assert results(cluster.ask(elect_leaders, 2, request(PREFERRED))) == [("orders", 0, ErrorCode.NONE)]
    assert results(cluster.ask(elect_leaders, 2, request(PREFERRED))) == []
    assert results(cluster.ask(elect_leaders, 2, request(PREFERRED, 0))) == [
        ("orders", 0, ErrorCode.ELECTION_NOT_NEEDED)
    ]


def test_an_unclean_election_gives_a_leader_to_a_partition_that_lost_all_its_replicas(cluster: Any) -> None:
    leader = cluster.create("orders", factor=1).partitions[0].leader
    cluster.stop(leader)
    assert results(cluster.ask(elect_leaders, 2, request(UNCLEAN, 0))) == [
        ("orders", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    ]
    cluster.change(lambda image: register_broker(image, leader, plaintext("host", 1), settings=TopicSettings()))
    assert cluster.image.partition("orders", 0).leader == -1
    assert results(cluster.ask(elect_leaders, 2, request(UNCLEAN, 0))) == [("orders", 0, ErrorCode.NONE)]
    assert cluster.image.partition("orders", 0).leader == leader


def test_an_unknown_election_type_is_refused(cluster: Any) -> None:
    cluster.create("orders")
    response = cluster.ask(elect_leaders, 1, request(7, 0))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert results(response) == [("orders", 0, ErrorCode.INVALID_REQUEST)]


def test_a_request_times_out_while_the_store_does_not_answer(cluster: Any) -> None:
    cluster.create("orders")
    reply = cluster.send(elect_leaders, 2, request(PREFERRED, 0, timeout_ms=500))
    (waiting,) = cluster.admin.purgatories.elections.operations(10)
    assert in_words(waiting.causes) == "the metadata store has not decided yet"
    assert [str(key) for key in waiting.keys] == ["orders-0"]
    cluster.pass_ms(501)
    (response,) = reply.responses
    assert results(response) == [("orders", 0, ErrorCode.REQUEST_TIMED_OUT)]
    cluster.turns.run()
    assert len(reply.responses) == 1


def test_at_the_deadline_only_the_election_that_the_image_lacks_times_out(cluster: Any) -> None:
    """The store has committed the elections; this broker's image does not show one of them yet."""
    preferred = cluster.create("orders", 3).partitions[0].leader
    cluster.stop(preferred)
    bring_back(cluster, preferred)
    cluster.see_only(cluster.image)
    reply = cluster.send(elect_leaders, 2, request(PREFERRED, 0, 9))
    cluster.turns.run()
    (waiting,) = cluster.admin.purgatories.elections.operations(10)
    assert in_words(waiting.causes) == f"orders-0: broker {preferred} does not lead yet"
    cluster.pass_ms(1001)
    (response,) = reply.responses
    assert response.error_code == ErrorCode.NONE
    assert results(response) == [
        ("orders", 0, ErrorCode.REQUEST_TIMED_OUT),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("timeout_ms", [1000, 0, -1], ids=["in time", "at once", "less than at once"])
def test_an_unclean_election_is_logged_even_after_the_request_has_timed_out(
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
