"""A client finds leaders and coordinators by whichever broker answers, and keeps a link to each broker."""

from __future__ import annotations

import pytest

from purgatorio.client.client import Coordinator, Leader, Refused, Unavailable
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.find_coordinator import Coordinator as Found
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.client.brokers import ADDRESSES, TP, Brokers, Patient

BEAT = HeartbeatRequest(group_id="g")


async def test_a_leader_is_looked_up_and_asked_over_one_link() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    brokers.set(HeartbeatRequest, HeartbeatResponse())
    leader = await client.leader(TP)
    assert leader == Leader(2, 7)
    await client.ask(leader.broker_id, BEAT)
    await client.ask(leader.broker_id, BEAT)
    assert brokers.asked == [("one", "MetadataRequest"), ("two", "HeartbeatRequest"), ("two", "HeartbeatRequest")]
    assert [link.closed for link in brokers.links] == [True, False]
    brokers.links[1].close()
    await client.ask(leader.broker_id, BEAT)
    assert len(brokers.links) == 3
    client.close()
    assert all(link.closed for link in brokers.links)


async def test_brokers_that_it_has_learned_of_are_asked_when_the_first_is_gone() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    await client.leader(TP)
    brokers.down = {"one"}
    brokers.asked.clear()
    await client.leader(TP)
    assert brokers.asked == [("two", "MetadataRequest")]
    brokers.down = {"one", "two"}
    with pytest.raises(Unavailable, match=r"^no broker answers: one:9092: nobody listens; two:9092: nobody listens$"):
        await client.leader(TP)


async def test_a_partition_without_a_leader_and_a_broker_without_an_address_are_unavailable() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    brokers.leader = -1
    with pytest.raises(Unavailable, match="orders-0 has no leader"):
        await client.leader(TP)
    with pytest.raises(Unavailable, match="broker 3 is not known"):
        await client.ask(3, BEAT)


async def test_a_known_leader_is_not_looked_up_again_until_it_is_forgotten() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    assert await client.known_leader(TP) == await client.known_leader(TP)
    assert len(brokers.asked) == 1
    client.forget()
    await client.known_leader(TP)
    assert len(brokers.asked) == 2


async def test_partitions_are_waited_for_until_each_has_a_leader() -> None:
    brokers = Brokers()
    client = Patient(brokers)

    def failing(code: ErrorCode) -> MetadataResponse:
        return MetadataResponse(topics=[MetadataResponseTopic(name="orders", error_code=code)])

    brokers.set(MetadataRequest, failing(ErrorCode.LEADER_NOT_AVAILABLE), brokers._metadata)
    assert (await client.partitions("orders"), client.waits) == ([0], 1)
    assert client.leaders == {TP: Leader(2, 7)}
    brokers.set(MetadataRequest, failing(ErrorCode.INVALID_TOPIC_EXCEPTION))
    with pytest.raises(Unavailable, match="orders: INVALID_TOPIC_EXCEPTION"):
        await client.partitions("orders")


async def test_a_coordinator_is_looked_up_once_and_again_after_an_error() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    host, port = ADDRESSES[2]
    found = FindCoordinatorResponse(coordinators=[Found(node_id=2, host=host, port=port)])
    brokers.set(FindCoordinatorRequest, found)
    brokers.set(HeartbeatRequest, HeartbeatResponse(), ConnectionResetError("lost"), HeartbeatResponse())
    coordinator = Coordinator(client, "g")
    await coordinator.ask(BEAT)
    with pytest.raises(ConnectionResetError):
        await coordinator.ask(BEAT)
    await coordinator.ask(BEAT)
    names = [name for _, name in brokers.asked]
    assert names == ["FindCoordinatorRequest", *["HeartbeatRequest"] * 2, "FindCoordinatorRequest", "HeartbeatRequest"]
    none = FindCoordinatorResponse(coordinators=[Found(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)])
    brokers.set(FindCoordinatorRequest, none)
    with pytest.raises(Refused, match="COORDINATOR_NOT_AVAILABLE"):
        await Coordinator(client, "h").find()
