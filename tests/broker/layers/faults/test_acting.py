"""What a rule does to a request: which part is refused, what is left undone, what waits and what is lost."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.faults import LiveRule, TooManyFaults
from purgatorio.broker.layers.faults import registry as registry_module
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from purgatorio.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from purgatorio.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from purgatorio.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.broker.layers.faults.harness import FakeBroker, FakeReply

OK, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


def produced(request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[PartitionProduceResponse(index=each.index) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def fetched(request: FetchRequest) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[PartitionData(partition_index=each.partition, records=b"abc") for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def described(request: MetadataRequest) -> MetadataResponse:
    names = [topic.name for topic in request.topics] if request.topics is not None else ["orders", "other"]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each, host="h", port=1) for each in (1, 2, 3)],
        topics=[MetadataResponseTopic(name=name) for name in names],
    )


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(
        {
            ApiKey.PRODUCE: produced,
            ApiKey.FETCH: fetched,
            ApiKey.METADATA: described,
            ApiKey.HEARTBEAT: lambda request: HeartbeatResponse(),
            ApiKey.DESCRIBE_CLUSTER: lambda request: DescribeClusterResponse(
                brokers=[DescribeClusterBroker(broker_id=each, host="h", port=1) for each in (1, 2, 3)]
            ),
        }
    )


def produce(
    broker: FakeBroker, *partitions: int, topic: str = "orders", acks: int = -1, client: str = "till"
) -> FakeReply:
    data = [PartitionProduceData(index=each, records=b"") for each in partitions or (0,)]
    request = ProduceRequest(acks=acks, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return broker.ask(ApiKey.PRODUCE, request, version=9, client=client)


def fetch(broker: FakeBroker, *partitions: int, version: int = 12, client: str = "till", **session: int) -> FakeReply:
    asked = [FetchPartition(partition=each) for each in partitions]
    name: dict[str, Any] = {"topic": "orders"} if version < 13 else {"topic_id": b"orders".ljust(16)}
    request = FetchRequest(max_wait_ms=500, topics=[FetchTopic(partitions=asked, **name)], **session)
    return broker.ask(ApiKey.FETCH, request, version=version, client=client)


def heartbeat(broker: FakeBroker, group: str = "billing") -> FakeReply:
    return broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(group_id=group), version=3)


def errors(reply: FakeReply) -> dict[int, ErrorCode]:
    """The error of each partition."""
    found = {}
    for topic in reply.answer.responses:
        for each in getattr(topic, "partitions", None) or topic.partition_responses:
            index = each.index if hasattr(each, "index") else each.partition_index
            found[index] = ErrorCode(each.error_code)
    return found


# --- errors ---


def test_the_work_of_a_refused_request_is_not_done(broker: FakeBroker) -> None:
    broker.fault(api="Produce", error=NOT_LEADER.name)
    assert errors(produce(broker, 0, 1)) == {0: NOT_LEADER, 1: NOT_LEADER}
    assert broker.worked == []


def test_the_partitions_that_a_rule_does_not_name_are_answered_normally(broker: FakeBroker) -> None:
    broker.fault(api="Produce", partition=1, error=NOT_LEADER.name)
    assert errors(produce(broker, 0, 1, 2)) == {0: OK, 1: NOT_LEADER, 2: OK}
    ((topic,),) = [request.topic_data for request in broker.worked]
    assert [each.index for each in topic.partition_data] == [0, 2]


@pytest.mark.parametrize("version", [12, 13])
def test_a_fetch_with_an_error_is_answered_at_once_by_name_and_by_id(broker: FakeBroker, version: int) -> None:
    broker.fault(api="Fetch", topic="orders", partition=1, error=NOT_LEADER.name)
    assert errors(fetch(broker, 0, 1, version=version)) == {0: OK, 1: NOT_LEADER}
    assert [request.max_wait_ms for request in broker.worked] == [0]


def test_an_error_of_all_partitions_of_a_fetch_stands_at_the_partitions(broker: FakeBroker) -> None:
    """Clients look for it there."""
    broker.fault(api="Fetch", error=NOT_LEADER.name)
    reply = fetch(broker, 0, 1)
    assert (reply.answer.error_code, errors(reply)) == (0, {0: NOT_LEADER, 1: NOT_LEADER})


def test_a_client_is_kept_from_fetch_sessions_while_a_rule_is_about_partitions(broker: FakeBroker) -> None:
    rule = broker.fault(api="Fetch", topic="other", error=NOT_LEADER.name)
    ended = fetch(broker, session_id=7, session_epoch=3)
    assert ended.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert rule.fired == 0
    fetch(broker, 0, client="another", session_epoch=0)
    rule.release()
    fetch(broker, 0, session_epoch=0)
    assert [request.session_epoch for request in broker.worked] == [-1, 0]


def test_a_partition_that_does_not_exist_uses_no_rule_up(broker: FakeBroker) -> None:
    rule = broker.fault(api="Produce", topic="orders", error=NOT_LEADER.name, count=1)
    assert errors(produce(broker, 9)) == {9: OK}
    assert (rule.matched, rule.fired) == (0, 0)


def test_metadata_of_the_named_topic_is_an_error_and_that_of_others_is_told(broker: FakeBroker) -> None:
    broker.fault(api="Metadata", topic="orders", error="LEADER_NOT_AVAILABLE")
    some = broker.ask(ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name="other")]), version=9)
    every = broker.ask(ApiKey.METADATA, MetadataRequest(topics=None), version=9)
    assert [each.error_code for each in some.answer.topics] == [0]
    assert [each.error_code for each in every.answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE, 0]


def test_a_refused_request_that_wants_no_answer_loses_its_connection(broker: FakeBroker) -> None:
    broker.fault(api="Produce", error=NOT_LEADER.name)
    assert produce(broker, acks=0).ended.startswith("closed")


def test_errors_come_in_turn_and_none_is_a_normal_answer(broker: FakeBroker) -> None:
    rule = broker.fault(api="Produce", errors=["REQUEST_TIMED_OUT", "NONE", NOT_LEADER.name])
    told = [errors(produce(broker))[0] for _ in range(4)]
    assert told == [ErrorCode.REQUEST_TIMED_OUT, OK, NOT_LEADER, OK]
    assert (rule.fired, rule.is_spent) == (3, True)


# --- which rule, and how often ---


def test_the_newest_rule_that_matches_acts_and_no_other(broker: FakeBroker) -> None:
    old = broker.fault(api="Produce", error="REQUEST_TIMED_OUT")
    new = broker.fault(api="Produce", error=NOT_LEADER.name, count=1)
    assert [errors(produce(broker))[0] for _ in range(2)] == [NOT_LEADER, ErrorCode.REQUEST_TIMED_OUT]
    assert (old.fired, new.fired) == (1, 1)


def test_a_rule_that_observes_lets_older_rules_act(broker: FakeBroker) -> None:
    broker.fault(api="Produce", error=NOT_LEADER.name)
    observer = broker.fault(api="Produce", observe=True)
    assert errors(produce(broker)) == {0: NOT_LEADER}
    assert observer.fired == 1


def test_the_nth_request_that_matches_and_only_it(broker: FakeBroker) -> None:
    broker.fault(api="Produce", nth=2, error=NOT_LEADER.name)
    assert [errors(produce(broker))[0] for _ in range(3)] == [OK, NOT_LEADER, OK]


def test_draws_are_the_same_after_the_rules_were_cleared(broker: FakeBroker) -> None:
    def drawn() -> list[ErrorCode]:
        broker.faults.clear()
        broker.fault(api="Produce", probability=0.5, error=NOT_LEADER.name)
        return [errors(produce(broker))[0] for _ in range(30)]

    first = drawn()
    assert first == drawn()
    assert 5 < first.count(NOT_LEADER) < 25


@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        ({"client": "till"}, True),
        ({"client": "other"}, False),
        ({"topic": "orders"}, True),
        ({"topic": "other"}, False),
        ({"version": 9}, True),
        ({"version": 8}, False),
        ({"broker": 1}, True),
        ({"broker": 2}, False),
        ({"replica": 2}, False),
        ({"partition": 0}, True),
        ({"partition": 3}, False),
        ({"transactional_id": "t"}, False),
        ({"when": lambda request: request.acks == -1}, True),
        ({"when": lambda request: request.acks == 1}, False),
    ],
)
def test_a_rule_acts_on_what_it_describes(broker: FakeBroker, rule: dict[str, Any], fires: bool) -> None:
    added = broker.fault(api="Produce", error=NOT_LEADER.name, **rule)
    produce(broker)
    assert bool(added.fired) is fires


def test_a_rule_for_a_group_is_about_the_apis_that_name_groups(broker: FakeBroker) -> None:
    broker.fault(group="billing", error="REBALANCE_IN_PROGRESS")
    assert heartbeat(broker).answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert heartbeat(broker, "other").answer.error_code == OK
    assert broker.handlers[ApiKey.PRODUCE] is broker.own_handlers[ApiKey.PRODUCE]


def test_requests_between_brokers_are_matched_only_if_a_rule_asks_for_them(broker: FakeBroker) -> None:
    clients = broker.fault(api="Fetch", error=NOT_LEADER.name)
    replica = broker.fault(api="Fetch", replica=2, error=NOT_LEADER.name)
    for client in ("broker-2-fetcher", "broker-3-fetcher", "till", "broker-of-mine"):
        fetch(broker, 0, client=client)
    assert (clients.fired, replica.fired) == (2, 1)


# --- waiting and losing ---


def test_a_held_request_begins_when_it_is_released_and_others_pass(broker: FakeBroker) -> None:
    rule = broker.fault(api="Produce", topic="orders", hold=True)
    held, other = produce(broker), produce(broker, topic="other")
    assert (held.ended, other.ended, rule.held) == ("waiting", "answered", 1)
    (parked,) = broker.purgatory.operations()
    assert in_words(parked.causes) == "Produce: fault 1 holds it until it is released"
    assert parked.keys == ("fault 1", TopicPartition("orders", 0))
    rule.release()
    assert held.ended == "answered"
    assert broker.faults.rules == []


def test_a_delayed_request_begins_when_its_time_has_come(broker: FakeBroker) -> None:
    broker.fault(api="Produce", delay_ms=200, error=NOT_LEADER.name)
    reply = produce(broker)
    broker.passes(199)
    assert reply.ended == "waiting"
    broker.passes(2)
    assert errors(reply) == {0: NOT_LEADER}


@pytest.mark.parametrize("error", [None, NOT_LEADER.name])
def test_a_delayed_answer_comes_after_its_work(broker: FakeBroker, error: str | None) -> None:
    broker.fault(api="Produce", answer_delay_ms=200, error=error)
    reply = produce(broker)
    assert (len(broker.worked), broker.channel.mutes) == (0 if error else 1, 0)
    (parked,) = broker.purgatory.operations()
    assert in_words(parked.causes) == "Produce: fault 1 delays its answer by 200 ms"
    broker.passes(199)
    assert reply.ended == "waiting"
    broker.passes(2)
    assert errors(reply) == {0: NOT_LEADER if error else OK}
    assert broker.faults.fired[0].action.startswith("answer waits 200 ms")


@pytest.mark.parametrize(
    ("rule", "ended", "worked"),
    [
        ({"disconnect": "before"}, "closed: fault 1 disconnects before the work", 0),
        ({"disconnect": "after"}, "closed: fault 1 disconnects after the work", 1),
        ({"drop": "request"}, "waiting", 0),
        ({"drop": "answer"}, "waiting", 1),
    ],
)
def test_a_lost_request_was_done_or_not(broker: FakeBroker, rule: dict[str, str], ended: str, worked: int) -> None:
    broker.fault(api="Produce", **rule)
    assert produce(broker).ended == ended
    assert len(broker.worked) == worked
    shown = [in_words(each.causes) for each in broker.purgatory.operations()]
    assert shown == (["Produce: fault 1 never answers it"] if "drop" in rule else [])


def test_a_held_request_loses_its_connection_when_the_broker_stops(broker: FakeBroker) -> None:
    broker.fault(api="Produce", hold=True)
    reply = produce(broker)
    broker.purgatory.shutdown()
    assert reply.ended == "closed: the broker stops"


@pytest.mark.parametrize(
    ("rule", "muted"),
    [({"hold": True}, 1), ({"delay_ms": 200}, 1), ({"drop": "request"}, 1), ({"drop": "answer"}, 0)],
)
def test_a_request_that_is_not_begun_holds_back_those_behind_it_on_its_connection(
    broker: FakeBroker, rule: dict[str, Any], muted: int
) -> None:
    """Kafka works on the requests of a connection in their order."""
    live = broker.fault(api="Produce", **rule)
    produce(broker)
    assert broker.channel.mutes == muted
    broker.passes(200)
    live.release()
    assert broker.channel.mutes == (1 if "drop" in rule and muted else 0)


# --- answers ---


def test_an_answer_can_tell_of_a_throttle(broker: FakeBroker) -> None:
    broker.fault(api="Produce", throttle_ms=70)
    assert produce(broker).answer.throttle_time_ms == 70


def test_a_corrupt_fetch_answer_has_a_wrong_bit_in_its_records(broker: FakeBroker) -> None:
    broker.fault(api="Fetch", corrupt=True)
    (topic,) = fetch(broker, 0, 1).answer.responses
    assert [bytes(each.records) for each in topic.partitions] == [b"abb", b"abc"]


def test_a_corrupt_answer_without_records_is_cut_short(broker: FakeBroker) -> None:
    broker.fault(api="Heartbeat", corrupt=True)
    assert len(heartbeat(broker).answer.parts[0]) == 3


def test_a_function_answers_or_leaves_it_to_the_broker(broker: FakeBroker) -> None:
    broker.fault(
        api="Heartbeat",
        reply=lambda request: HeartbeatResponse(error_code=27) if request.group_id == "billing" else None,
    )
    assert heartbeat(broker).answer.error_code == 27
    assert heartbeat(broker, "other").answer.error_code == 0


# --- rules come and go ---


def test_without_rules_the_handlers_are_the_brokers_own(broker: FakeBroker) -> None:
    rule = broker.fault(error=NOT_LEADER.name)
    assert all(handler is not broker.own_handlers[key] for key, handler in broker.handlers.items())
    broker.faults.remove(rule.id)
    assert broker.handlers == broker.own_handlers


def test_a_spent_rule_stands_before_no_handler(broker: FakeBroker) -> None:
    rule = broker.fault(api="Produce", error=NOT_LEADER.name, count=1)
    produce(broker)
    assert broker.handlers[ApiKey.PRODUCE] is broker.own_handlers[ApiKey.PRODUCE]
    assert broker.faults.rules == [rule]


def test_what_fired_is_told_with_the_partitions(broker: FakeBroker) -> None:
    broker.fault(api="Produce", topic="orders", error=NOT_LEADER.name)
    produce(broker, 0, 2)
    (fired,) = broker.faults.fired
    assert (fired.at_ms, fired.rule, fired.api, fired.client) == (1_000, 1, "Produce", "till")
    assert (fired.partitions, fired.action) == (("orders-0", "orders-2"), "NOT_LEADER_OR_FOLLOWER")


def test_there_is_a_limit_of_rules(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "MAX_RULES", 2)
    rules: list[LiveRule] = [broker.fault(hold=True) for _ in range(2)]
    with pytest.raises(TooManyFaults):
        broker.fault(hold=True)
    broker.faults.remove(rules[0].id)
    broker.fault(hold=True)


def test_a_rule_that_was_cleared_does_not_remove_the_one_that_has_its_number_now(broker: FakeBroker) -> None:
    old = broker.fault(hold=True)
    broker.faults.clear()
    new = broker.fault(hold=True)
    old.release()
    assert (old.id, broker.faults.rules) == (new.id, [new])


# --- hidden brokers ---


def test_hidden_brokers_are_not_listed_and_older_rules_act_too(broker: FakeBroker) -> None:
    """Two brokers can be hidden, and a rule that fails a topic still fails it."""
    broker.fault(api="Metadata", topic="orders", error="LEADER_NOT_AVAILABLE")
    rules = [broker.fault(hide=2), broker.fault(hide=3, api="Metadata")]
    answer = broker.ask(ApiKey.METADATA, MetadataRequest(topics=None), version=9).answer
    assert [each.node_id for each in answer.brokers] == [1]
    assert answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    described = broker.ask(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), version=0).answer
    assert [each.broker_id for each in described.brokers] == [1, 3]
    assert [each.fired for each in rules] == [2, 1]
    assert broker.faults.fired[-1].action == "broker 2 hidden"
    assert broker.handlers[ApiKey.PRODUCE] is broker.own_handlers[ApiKey.PRODUCE]
