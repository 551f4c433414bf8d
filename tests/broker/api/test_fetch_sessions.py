"""Fetch sessions (KIP-227) as clients see them: requests through the handler, and Kafka's own bugs as tests."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import fetch as fetch_api
from purgatorio.broker.api.fetch import FetchHandler
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.routing.request import RequestContext, Session
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tests.broker.api.harness import Replies
from tests.broker.replica.harness import ORDERS, Harness, batch, topic
from tests.broker.time.by_hand import HandListings

ONE_BATCH = len(batch(b"value"))


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class Client:
    """A client with one connection; it sends what the test says, and remembers session and epoch."""

    def __init__(self, broker: Harness, *, version: int = 12, replica: int = -1) -> None:
        self.broker = broker
        self.version = version
        self.replica = self.replica_epoch = replica
        self.session_id = 0
        self.epoch = 0
        self.handler = FetchHandler(
            broker.replicas,
            broker,
            sessions=broker.fetch_sessions,
            max_bytes=1_000_000,
            listings=HandListings(),
        )
        self.connection = Session(connection_id="c", listener="PLAINTEXT", host="127.0.0.1", peer="127.0.0.1:1")

    def send(
        self,
        *wanted: tuple[str, int, int],
        forget: tuple[tuple[str, int], ...] = (),
        session: tuple[int, int] | None = None,
        max_wait_ms: int = 0,
        ids: dict[str, bytes] | None = None,
        **request: Any,
    ) -> Replies:
        """Fetch partitions from offsets, in the session, with the next epoch; returns the replies."""
        replies = Replies()
        session_id, epoch = session if session is not None else (self.session_id, self.epoch)
        fields: dict[str, Any] = {"partition_max_bytes": 1_000_000, **request.pop("fields", {})}
        named = [
            FetchTopic(
                topic=name,
                topic_id=(ids or {}).get(name, topic_id(name)),
                partitions=[FetchPartition(partition=index, fetch_offset=offset, **fields)],
            )
            for name, index, offset in wanted
        ]
        forgotten = [
            ForgottenTopic(topic=name, topic_id=(ids or {}).get(name, topic_id(name)), partitions=[index])
            for name, index in forget
        ]
        message = FetchRequest(
            topics=named,
            forgotten_topics_data=forgotten,
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            **{"min_bytes": 1, **request},
        )
        if self.replica >= 0:
            message.replica_state = ReplicaState(replica_id=self.replica, replica_epoch=self.replica_epoch)
        context = RequestContext(self.connection, "test", ApiKey.FETCH, self.version, 0)
        self.handler.handle(context, message, replies)
        return replies

    def fetch(self, *wanted: tuple[str, int, int], **options: Any) -> FetchResponse:
        """Send a fetch that is answered at once, and take the session of its response."""
        response: FetchResponse = self.send(*wanted, **options).only
        if not response.error_code:
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if response.session_id else 0
        return response


def told(response: FetchResponse) -> dict[str, PartitionData]:
    """Return the entries of a response by partition."""
    entries = {f"{t.topic}-{data.partition_index}": data for t in response.responses for data in t.partitions}
    assert len(entries) == sum(len(t.partitions) for t in response.responses), "no partition is listed twice"
    return entries


def records(response: FetchResponse) -> dict[str, int]:
    """Return the number of batches that each partition gave."""
    return {name: len(data.records) for name, data in told(response).items()}


@pytest.fixture
def broker() -> Harness:
    """Broker 1, which leads orders-0 and payments-0 alone."""
    harness = Harness()
    harness.set_topics(topic(replicas=(1,)), topic("payments", replicas=(1,)))
    return harness


@pytest.fixture
def client(broker: Harness) -> Client:
    """A consumer with a session of both partitions, from their starts."""
    client = Client(broker)
    client.fetch(("orders", 0, 0), ("payments", 0, 0))
    assert client.session_id > 0
    return client


PAYMENTS = TopicPartition("payments", 0)


def test_the_first_response_lists_every_partition_and_names_the_session(broker: Harness) -> None:
    response = Client(broker).fetch(("orders", 0, 0), ("payments", 0, 0))
    assert list(told(response)) == ["orders-0", "payments-0"]
    assert 0 < response.session_id < 2**31


def test_versions_below_7_and_requests_that_want_none_get_no_session(broker: Harness) -> None:
    assert Client(broker, version=6).fetch(("orders", 0, 0)).session_id == 0
    assert Client(broker).fetch(("orders", 0, 0), session=(0, -1)).session_id == 0
    assert len(broker.fetch_sessions) == 0


def test_a_later_response_lists_only_what_has_something_to_tell(broker: Harness, client: Client) -> None:
    assert told(client.fetch()) == {}
    broker.produce(PAYMENTS, acks=1)
    assert records(client.fetch()) == {"payments-0": 1}
    assert told(client.fetch(("payments", 0, 1))) == {}


def test_a_partition_that_the_client_does_not_name_is_served_from_where_it_was(broker: Harness, client: Client) -> None:
    broker.produce(acks=1)
    assert records(client.fetch()) == {"orders-0": 1}
    assert records(client.fetch()) == {"orders-0": 1}, "the client is still at offset 0"
    assert records(client.fetch(("orders", 0, 1))) == {}


def test_an_incremental_request_adds_alters_and_forgets_and_forgetting_comes_last(
    broker: Harness, client: Client
) -> None:
    broker.produce(acks=1)
    broker.produce(PAYMENTS, acks=1)
    assert records(client.fetch(forget=(("orders", 0),))) == {"payments-0": 1}
    assert records(client.fetch(("orders", 0, 0), ("payments", 0, 1))) == {"orders-0": 1}
    assert records(client.fetch(("orders", 0, 0), forget=(("orders", 0),))) == {}
    broker.produce(acks=1)
    assert records(client.fetch()) == {}


def test_a_session_without_partitions_is_closed(broker: Harness, client: Client) -> None:
    response = client.fetch(forget=(("orders", 0), ("payments", 0)))
    assert (response.session_id, response.error_code, told(response)) == (0, ErrorCode.NONE, {})
    assert len(broker.fetch_sessions) == 0


def test_a_full_request_closes_the_session_that_it_names(broker: Harness, client: Client) -> None:
    before = client.session_id
    response = client.fetch(("orders", 0, 0), session=(before, 0))
    assert response.session_id not in (0, before)
    assert Client(broker).fetch(session=(before, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(("orders", 0, 0), session=(response.session_id, -1)).session_id == 0
    assert len(broker.fetch_sessions) == 0
    assert client.fetch(("orders", 0, 0), session=(12345, -1)).error_code == ErrorCode.NONE, "an unknown one, too"


# --- errors ---


@pytest.mark.parametrize("session", [(0, 1), (0, 77), (123, 1)])
def test_an_unknown_session_is_told_before_its_epoch_is_looked_at(broker: Harness, session: tuple[int, int]) -> None:
    response = Client(broker).fetch(("orders", 0, 0), session=session)
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert response.responses == []


@pytest.mark.parametrize("epoch", [2, 3, -2, 2**31 - 1])
def test_a_wrong_epoch_is_refused_and_the_session_lives_on(broker: Harness, client: Client, epoch: int) -> None:
    response = client.fetch(session=(client.session_id, epoch))
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    broker.produce(acks=1)
    assert records(client.fetch()) == {"orders-0": 1}


def test_names_in_a_session_of_ids_and_ids_in_one_of_names_are_refused(broker: Harness, client: Client) -> None:
    client.version = 13
    assert client.fetch(("orders", 0, 0)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert client.fetch(session=(client.session_id, 9)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH, "first"
    client.version = 12
    assert client.fetch(("orders", 0, 0)).error_code == ErrorCode.NONE
    by_id = Client(broker, version=13)
    by_id.fetch(("orders", 0, 0))
    by_id.version = 12
    assert by_id.fetch(("orders", 0, 0)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_consumer_cannot_use_a_followers_session_nor_another_follower(broker: Harness) -> None:
    broker.set_topics(topic(partition_epoch=1))
    follower = Client(broker, version=16, replica=2)
    follower.fetch(("orders", 0, 0))
    for other in (Client(broker, version=16), Client(broker, version=16, replica=3)):
        response = other.fetch(session=(follower.session_id, 1))
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert follower.fetch().error_code == ErrorCode.NONE


def test_another_connection_may_go_on_with_a_consumers_session(broker: Harness, client: Client) -> None:
    other = Client(broker)
    assert other.fetch(session=(client.session_id, 1)).session_id == client.session_id


def test_the_epoch_after_the_largest_is_1(broker: Harness, client: Client) -> None:
    session = broker.fetch_sessions.find(client.session_id)
    assert session is not None
    session.epoch = 2**31 - 1
    assert client.fetch(session=(client.session_id, 2**31 - 1)).error_code == ErrorCode.NONE
    assert client.fetch(session=(client.session_id, 1)).error_code == ErrorCode.NONE


def test_a_repeated_request_is_told_apart_while_the_first_waits(client: Client) -> None:
    """The first one has moved the epoch when it was accepted; the later one ends its wait."""
    first = client.send(max_wait_ms=500)
    assert first.said == []
    repeated = client.fetch(session=(client.session_id, 1))
    assert (repeated.error_code, repeated.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert first.said == []
    second = client.send(session=(client.session_id, 2), max_wait_ms=500)
    assert (first.only.error_code, first.only.session_id) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        client.session_id,
    )
    assert second.said == []


def test_a_request_that_waits_is_answered_when_its_session_ends(broker: Harness, client: Client) -> None:
    waiting = client.send(max_wait_ms=500)
    client.send(("orders", 0, 0), session=(client.session_id, -1))
    assert waiting.only.responses == []
    assert broker.fetch_purgatory.num_delayed == 0


def test_a_consumers_session_may_not_grow_without_bound(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_api, "MAX_CONSUMER_PARTITIONS", 2)
    assert client.fetch(("orders", 1, 0)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.fetch_sessions) == 0


# --- what is told ---


def test_a_moved_log_start_is_told_once(broker: Harness, client: Client) -> None:
    broker.produce(acks=1)
    client.fetch(("orders", 0, 1))
    broker.replicas.delete_records([(ORDERS, 1)], timeout_ms=0, done=lambda results: None)
    (data,) = told(client.fetch()).values()
    assert data.log_start_offset == 1
    assert told(client.fetch()) == {}


def test_a_high_watermark_is_told_though_it_makes_nothing_readable(broker: Harness) -> None:
    broker.set_topics(topic(partition_epoch=1, isr=(1, 2)))
    follower = Client(broker, version=16, replica=3)
    broker.produce(acks=1)
    follower.fetch(("orders", 0, 0))
    follower.fetch(("orders", 0, 1))
    broker.follow((2, 1))
    (data,) = told(follower.fetch()).values()
    assert (data.high_watermark, list(data.records)) == (1, [])
    assert told(follower.fetch()) == {}


def test_after_an_error_the_recovery_is_told_though_nothing_else_changed(broker: Harness, client: Client) -> None:
    broker.set_topics(
        topic(replicas=(1,), leader=-1, leader_epoch=1, partition_epoch=1), topic("payments", replicas=(1,))
    )
    for _ in range(2):
        (data,) = told(client.fetch()).values()
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.set_topics(topic(replicas=(1,), leader_epoch=2, partition_epoch=2), topic("payments", replicas=(1,)))
    assert list(told(client.fetch())) == ["orders-0"]
    assert told(client.fetch()) == {}


@pytest.mark.parametrize("version", [12, 13])
def test_each_answer_tells_of_a_partition_that_does_not_exist_and_the_others_are_waited_for(
    broker: Harness, version: int
) -> None:
    code = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client = Client(broker, version=version)
    first = client.send(("orders", 0, 0), ("nowhere", 0, 0), max_wait_ms=500)
    assert not first.said
    broker.advance_ms(501)
    client.session_id, client.epoch = first.only.session_id, 1
    for produced in (0, 0, 1):
        waiting = client.send(max_wait_ms=500)
        client.epoch += 1
        assert not waiting.said
        if produced:
            broker.produce(acks=1)
        else:
            broker.advance_ms(501)
        errors = [each.partitions[0].error_code for each in waiting.only.responses]
        assert errors == [code, ErrorCode.NONE][: 1 + produced]


def test_a_session_of_nothing_that_exists_is_answered_at_once(broker: Harness) -> None:
    client = Client(broker)
    client.fetch(("nowhere", 0, 0), max_wait_ms=500)
    (data,) = told(client.fetch(max_wait_ms=500)).values()
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_lost_lease_is_told_and_so_is_that_it_is_held_again(broker: Harness, client: Client) -> None:
    waiting = client.send(max_wait_ms=500)
    broker.may_lead = False
    broker.replicas.lease_lost()
    codes = {data.error_code for data in told(waiting.only).values()}
    assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert len(told(waiting.only)) == 2
    broker.may_lead = True
    broker.replicas.lease_resumed()
    client.epoch += 1
    assert [data.error_code for data in told(client.fetch()).values()] == [0, 0]


def test_a_wait_ends_when_enough_can_be_read_from_all_partitions_together(broker: Harness, client: Client) -> None:
    waiting = client.send(max_wait_ms=500, min_bytes=2 * ONE_BATCH)
    broker.produce(acks=1)
    assert waiting.said == []
    (operation,) = broker.fetch_purgatory.operations()
    assert in_words(operation.causes) == (
        f"consumer has {ONE_BATCH} of {2 * ONE_BATCH} bytes: orders-0 from 0, payments-0 from 0"
    )
    broker.produce(PAYMENTS, acks=1)
    assert records(waiting.only) == {"orders-0": 1, "payments-0": 1}


def test_what_was_told_before_the_client_knew_of_a_leader_epoch_is_told_again(broker: Harness) -> None:
    client = Client(broker)
    client.fetch(("orders", 0, 0), fields={"current_leader_epoch": 0})
    assert told(client.fetch(("orders", 0, 0), fields={"current_leader_epoch": 0})) == {}
    broker.set_topics(topic(replicas=(1,), leader_epoch=1, partition_epoch=1))
    assert list(told(client.fetch(("orders", 0, 0), fields={"current_leader_epoch": 1}))) == ["orders-0"]


def test_after_a_divergence_the_high_watermark_is_told_again(broker: Harness) -> None:
    broker.produce(acks=1)
    broker.set_topics(topic(replicas=(1,), leader_epoch=1, partition_epoch=1))
    broker.produce(acks=1)
    client = Client(broker)
    client.fetch(("orders", 0, 2), fields={"last_fetched_epoch": 1})
    (data,) = told(client.fetch(("orders", 0, 2), fields={"last_fetched_epoch": 0})).values()
    assert data.diverging_epoch.end_offset == 1
    (data,) = told(client.fetch(("orders", 0, 2), fields={"last_fetched_epoch": 1})).values()
    assert (data.high_watermark, list(data.records)) == (2, [])


def test_a_new_segment_ends_a_consumers_wait_though_the_high_watermark_stays(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1, segment_bytes=str(ONE_BATCH)))
    broker.produce(acks=1)
    broker.follow((2, 1))
    client = Client(broker)
    waiting = client.send(("orders", 0, 0), max_wait_ms=500, min_bytes=10_000)
    assert waiting.said == []
    broker.produce(acks=1)
    assert (broker.partition().high_watermark, records(waiting.only)) == (1, {"orders-0": 1})


# --- bugs that Kafka had ---


def test_kafka_9338_the_leader_epoch_stays_in_the_session_so_that_it_fences(broker: Harness) -> None:
    client = Client(broker)
    client.fetch(("orders", 0, 0), fields={"current_leader_epoch": 0})
    broker.set_topics(topic(replicas=(1,), leader_epoch=1, partition_epoch=1))
    (data,) = told(client.fetch()).values()
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_kafka_12330_full_responses_starve_no_partition(broker: Harness, client: Client) -> None:
    offsets = {"orders": 0, "payments": 0}
    for _ in range(4):
        broker.produce(acks=1)
        broker.produce(PAYMENTS, acks=1)
    given = []
    named: list[tuple[str, int, int]] = []
    for _ in range(8):
        found = records(client.fetch(*named, max_bytes=ONE_BATCH))
        (name,) = [each for each, count in found.items() if count]
        given.append(name)
        offsets[name[:-2]] += 1
        named = [(name[:-2], 0, offsets[name[:-2]])]
    assert given[:4] == ["orders-0", "payments-0"] * 2 or given[:4] == ["payments-0", "orders-0"] * 2
    assert sorted(given) == ["orders-0"] * 4 + ["payments-0"] * 4


def test_kafka_13079_forgetting_a_topic_without_an_id_forgets_nothing(broker: Harness) -> None:
    client = Client(broker, version=13)
    client.fetch(("orders", 0, 0))
    client.fetch(forget=(("orders", 0),), ids={"orders": bytes(16)})
    broker.produce(acks=1)
    assert sum(len(data.records) for t in client.fetch().responses for data in t.partitions) == 1


def test_kafka_13111_a_topic_id_that_is_unknown_yet_is_found_later(broker: Harness) -> None:
    client = Client(broker, version=13)
    for _ in range(2):
        response = client.fetch(*[("late", 0, 0)] if not client.session_id else [])
        assert response.responses[0].topic_id == topic_id("late")
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.set_topics(*broker.image.topics.values(), topic("late", replicas=(1,)))
    assert client.fetch().responses[0].partitions[0].error_code == ErrorCode.NONE
    broker.produce(TopicPartition("late", 0), acks=1)
    assert len(client.fetch().responses[0].partitions[0].records) == 1


def test_a_topic_that_is_created_again_is_forgotten_and_named_by_its_new_id_in_one_request(broker: Harness) -> None:
    client = Client(broker, version=13)
    client.fetch(("orders", 0, 0))
    again = b"again".ljust(16, b"\0")
    broker.set_topics(topic(replicas=(1,), topic_id=again))
    assert client.fetch().responses[0].partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    client.send(("orders", 0, 0), ids={"orders": again})
    client.epoch += 1
    response = client.fetch(forget=(("orders", 0),))
    assert response.responses == [], "the old one is forgotten, and nothing of the new one has changed"
    broker.produce(acks=1)
    (answered,) = client.fetch().responses
    assert (answered.topic_id, len(answered.partitions[0].records)) == (again, 1)


def test_kafka_7280_the_next_fetch_before_the_answer_of_the_last_leaves_the_session_consistent(
    broker: Harness, client: Client
) -> None:
    first = client.send(max_wait_ms=500)
    second = client.send(("payments", 0, 0), session=(client.session_id, 2), max_wait_ms=500)
    broker.produce(acks=1)
    assert first.only.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert records(second.only) == {"orders-0": 1}, "what the first was not told is told to the second"


def test_thousand_and_one_clients_get_answers_and_a_thousand_of_them_a_session(broker: Harness) -> None:
    sessions = [Client(broker).fetch(("orders", 0, 0)) for _ in range(1_001)]
    assert [response.error_code for response in sessions] == [0] * 1_001
    assert sum(response.session_id > 0 for response in sessions) == 1_000
    assert sessions[-1].session_id == 0


def test_a_client_that_asks_for_a_new_session_each_time_has_one(broker: Harness) -> None:
    client = Client(broker)
    for _ in range(1_001):
        response = client.fetch(("orders", 0, 0), session=(0, 0))
    assert len(broker.fetch_sessions) == 1
    assert broker.fetch_sessions.find(response.session_id) is not None


def test_an_append_costs_nothing_for_sessions_that_nobody_uses_any_more(broker: Harness) -> None:
    for _ in range(100):
        Client(broker).fetch(("orders", 0, 0))
    watch = broker.replicas._events.watch
    assert len(watch.consumers.of(ORDERS)) == 100
    broker.produce(acks=1)
    assert not watch.consumers.of(ORDERS), "each has heard of it once, and hears no more until it is used"


def test_a_session_that_ends_hears_of_nothing_any_more(broker: Harness, client: Client) -> None:
    watch = broker.replicas._events.watch
    assert watch.partitions() == [ORDERS, PAYMENTS]
    client.fetch(forget=(("payments", 0),))
    assert watch.partitions() == [ORDERS]
    client.send(session=(client.session_id, -1))
    assert watch.partitions() == []


def test_an_answer_that_was_withheld_is_told_again(broker: Harness, client: Client) -> None:
    """A quota keeps it from the client: also what needs no records to be told."""
    client.fetch(("orders", 0, 0), ("payments", 0, 0))
    broker.produce(acks=1)
    response = client.fetch()
    assert told(response).keys() == {"orders-0"}
    broker.fetch_sessions.withheld(client.session_id, [("orders", 0)], was_full=False)
    again = client.fetch()
    assert records(again) == records(response)
    assert told(again)["orders-0"].high_watermark == told(response)["orders-0"].high_watermark
    client.fetch(("orders", 0, 1))
    assert told(client.fetch()) == {}
    broker.fetch_sessions.withheld(client.session_id, [("orders", 0), ("gone", 0)], was_full=False)
    assert told(client.fetch()).keys() == {"orders-0"}, "its high watermark"
    assert told(client.fetch()) == {}


def test_a_session_that_its_client_never_saw_ends(broker: Harness, client: Client) -> None:
    client.fetch(("orders", 0, 0))
    broker.fetch_sessions.withheld(client.session_id, [("orders", 0)], was_full=True)
    assert len(broker.fetch_sessions) == 0
    broker.fetch_sessions.withheld(client.session_id, [], was_full=True)


def test_what_a_throttle_withheld_is_read_when_the_rate_has_fallen_though_nothing_happened() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1, 2), **{"leader.replication.throttled.replicas": "*"}))
    broker.replicas.leader_throttle.limit = ONE_BATCH
    follower = Client(broker, version=16, replica=3)
    broker.produce(acks=1)
    broker.produce(acks=1)
    assert records(follower.fetch(("orders", 0, 0), max_bytes=1)) == {"orders-0": 1}
    broker.replicas.leader_throttle.record(ONE_BATCH)
    follower.fetch(("orders", 0, 1))
    assert told(follower.fetch()) == {}
    broker.advance_ms(2_000)
    assert records(follower.fetch()) == {"orders-0": 1}
