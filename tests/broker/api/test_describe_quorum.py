"""Tests of the DescribeQuorum handler: the brokers as voters, and the controller as their leader."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_quorum
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)

METADATA = ("__cluster_metadata", 0)


def request(*partitions: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopic(
                topic_name=name, partitions=[DescribeQuorumRequestPartition(partition_index=index)]
            )
            for name, index in partitions
        ]
    )


@pytest.mark.parametrize("version", range(3))
def test_the_controller_leads_and_the_brokers_vote(cluster: Any, version: int) -> None:
    answer = cluster.ask(describe_quorum, version, request(METADATA))
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.topics
    (quorum,) = topic.partitions
    assert (topic.topic_name, quorum.partition_index, quorum.error_code) == (*METADATA, ErrorCode.NONE)
    assert (quorum.leader_id, quorum.high_watermark) == (1, cluster.image.version)
    voters = [(voter.replica_id, voter.log_end_offset) for voter in quorum.current_voters]
    assert voters == [(broker_id, cluster.image.version) for broker_id in (1, 2, 3)]
    assert quorum.observers == []


def test_a_new_controller_is_a_new_leader_with_a_higher_epoch(cluster: Any) -> None:
    (before,) = cluster.ask(describe_quorum, 2, request(METADATA)).topics[0].partitions
    cluster.fence(1)
    (after,) = cluster.ask(describe_quorum, 2, request(METADATA)).topics[0].partitions
    assert (before.leader_id, after.leader_id) == (1, 2)
    assert after.leader_epoch == before.leader_epoch + 1
    cluster.create("orders", factor=2)
    (later,) = cluster.ask(describe_quorum, 2, request(METADATA)).topics[0].partitions
    assert later.leader_epoch == after.leader_epoch
    assert later.high_watermark > after.high_watermark


def test_version_2_tells_where_the_live_voters_are(cluster: Any) -> None:
    cluster.fence(3)
    nodes = cluster.ask(describe_quorum, 2, request(METADATA)).nodes
    found = [(node.node_id, each.name, each.host, each.port) for node in nodes for each in node.listeners]
    assert found == [(1, "PLAINTEXT", "host-1", 9001), (2, "PLAINTEXT", "host-2", 9002)]


@pytest.mark.parametrize(
    "asked", [[("orders", 0)], [("__cluster_metadata", 1)], [METADATA, METADATA], [METADATA, ("orders", 0)]]
)
def test_anything_else_makes_all_partitions_unknown(cluster: Any, asked: list[tuple[str, int]]) -> None:
    answer = cluster.ask(describe_quorum, 2, request(*asked))
    assert answer.error_code == ErrorCode.NONE
    told = [(t.topic_name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions]
    assert told == [(*each, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for each in asked]
    assert answer.nodes == []


def test_a_request_for_nothing_is_answered_with_nothing(cluster: Any) -> None:
    answer = cluster.ask(describe_quorum, 2, request())
    assert (answer.error_code, answer.topics, answer.nodes) == (ErrorCode.NONE, [], [])


def test_a_whole_request_can_be_answered_with_an_error(cluster: Any) -> None:
    response = describe_quorum.API.failed(request(METADATA), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert cluster.travel(2, response).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
