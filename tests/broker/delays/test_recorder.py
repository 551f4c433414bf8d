"""Finished delayed operations become records of a topic."""

from __future__ import annotations

import importlib.resources
import json
import random
from typing import Any

import jsonschema
import pytest

from purgatorio.broker.delays.recorder import (
    BATCH_BYTES,
    BATCH_EVENTS,
    MAX_KEYS,
    MAX_TEXT,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    TOPIC,
    DelayRecorder,
    event_of,
)
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.replica.fetching.delayed_fetch import FollowerKey
from purgatorio.protocol.records import iter_batches, iter_records
from purgatorio.purgatory import FinishedOperation
from tests.broker.replica.harness import ORDERS, Harness, topic

DELAYS = TopicPartition(TOPIC, 0)
SCHEMA = json.loads(
    importlib.resources.files("purgatorio.schemas").joinpath("delayed_operation.v1.json").read_text("utf-8")
)


class Recording:
    """Broker 1 with a recorder, and a topic of events that it leads."""

    def __init__(self) -> None:
        self.broker = Harness()
        self.metrics = BrokerMetrics(1)
        self.recorder = DelayRecorder(self.broker.replicas, self.broker.clock, self.metrics)
        for purgatory in (self.broker.produce_purgatory, self.broker.fetch_purgatory):
            purgatory.on_finished = self.recorder.add
        self.set_delays_topic(topic(TOPIC))

    def set_delays_topic(self, *delays: Any) -> None:
        self.broker.set_topics(topic(), *delays)
        self.recorder.image_changed(self.broker.image)

    def append(self) -> int:
        """Let the recorder append all that it can, and return the number of its steps."""
        return sum(1 for _ in self.recorder.steps())

    def events(self) -> list[dict[str, Any]]:
        """The events in the topic."""
        log = self.broker.partition(DELAYS).log
        data = b"".join(log.read(0, max_bytes=10_000_000, end_offset=log.log_end_offset).parts)
        records = [record for _, batch in iter_batches(data) for record in iter_records(batch)]
        assert [record.offset for record in records] == list(range(len(records)))
        assert all(record.timestamp_ms == json.loads(record.value or b"")["done_ms"] for record in records)
        return [json.loads(record.value or b"") for record in records]


@pytest.fixture
def recording() -> Recording:
    return Recording()


def ended(number: int = 1, **fields: Any) -> FinishedOperation:
    base = FinishedOperation(
        number, "Produce", (ORDERS,), 10, 15, 1010, "completed", "high watermark", 2, (), "", "toy", (2,), ORDERS
    )
    return base._replace(**fields)


def test_a_finished_operation_becomes_an_event_of_the_shared_schema(recording: Recording) -> None:
    recording.broker.produce()
    recording.broker.clock.advance_ms(7)
    recording.broker.follow((3, 1), (2, 1))
    recording.append()
    (event,) = (each for each in recording.events() if each["purgatory"] == "Produce")
    jsonschema.validate(event, SCHEMA)
    assert event == {
        "version": 1,
        "broker": 1,
        "broker_epoch": 1,
        "purgatory": "Produce",
        "kind": "produce",
        "id": 1,
        "client": "producer",
        "partitions": [{"topic": "orders", "partition": 0}],
        "other_keys": [],
        "parked_ms": 1_700_000_000_000,
        "done_ms": 1_700_000_000_007,
        "deadline_ms": 1_700_000_001_000,
        "outcome": "completed",
        "cause": "high watermark",
        "held_by": [2],
        "checks": 3,
        "detail": "",
    }


def test_every_kind_of_operation_fits_the_schema() -> None:
    for operation in (
        ended(outcome="expired", cause="expired", causes=("x" * 5_000,), client="c" * 5_000),
        ended(keys=tuple(TopicPartition("t", number) for number in range(1_400))),
        ended(purgatory="topic", keys=("all topics",), held_by=("somebody",)),
        ended(keys=("k" * 1_000,) * 200, client="\ud800"),
    ):
        event = json.loads(json.dumps(event_of(operation, BrokerIncarnation(1, 1), 1_700_000_000_000)))
        jsonschema.validate(event, SCHEMA)
        assert len(event["partitions"]) <= MAX_KEYS
        assert len(event["detail"]) <= MAX_TEXT
        assert all(isinstance(holder, int) for holder in event["held_by"])


def test_nothing_is_recorded_without_the_topic(recording: Recording) -> None:
    recording.set_delays_topic()
    recording.recorder.add(ended())
    recording.set_delays_topic(topic(TOPIC))
    assert recording.append() == 0
    recording.recorder.add(ended(2))
    recording.append()
    assert [event["id"] for event in recording.events()] == [2]


def test_the_topics_own_traffic_is_not_recorded(recording: Recording) -> None:
    recording.recorder.add(ended(1, purgatory="Fetch", keys=(DELAYS,), outcome="expired", event_key=None))
    recording.recorder.add(ended(2, purgatory="Fetch", keys=(ORDERS, DELAYS), event_key=DELAYS))
    recording.recorder.add(ended(3, purgatory="Fetch", keys=(ORDERS, DELAYS), event_key=ORDERS))
    recording.recorder.add(
        ended(4, purgatory="Fetch", keys=(DELAYS, FollowerKey(2)), outcome="expired", event_key=None)
    )
    recording.append()
    (event,) = recording.events()
    assert event["id"] == 3
    assert event["partitions"] == [{"topic": "orders", "partition": 0}]


def test_recording_does_not_feed_on_itself(recording: Recording) -> None:
    """Each recorded batch completes fetches of followers that wait for all partitions; these are not recorded."""
    broker = recording.broker
    for _ in range(5):
        for follower in (2, 3):
            end = broker.partition(DELAYS).log.log_end_offset
            broker.fetch((ORDERS, 0), (DELAYS, end), replica_id=follower)
        recording.recorder.add(ended())
        recording.append()
    assert {event["purgatory"] for event in recording.events()} == {"Produce"}
    assert len(recording.events()) == 5


def test_many_events_are_appended_in_steps_between_which_others_have_their_turn(recording: Recording) -> None:
    for number in range(1, 2 * BATCH_EVENTS + 2):
        recording.recorder.add(ended(number))
    assert recording.append() == 3
    assert [event["id"] for event in recording.events()] == list(range(1, 2 * BATCH_EVENTS + 2))
    assert recording.append() == 0


def test_events_wait_while_the_broker_leads_no_partition_of_the_topic(recording: Recording) -> None:
    recording.set_delays_topic(topic(TOPIC, leader=2, leader_epoch=1, partition_epoch=1))
    recording.recorder.add(ended())
    assert recording.append() == 0
    recording.set_delays_topic(topic(TOPIC, leader=1, leader_epoch=2, partition_epoch=2))
    assert recording.append() == 1
    assert [event["id"] for event in recording.events()] == [1]


def test_events_wait_while_the_broker_may_have_been_fenced(recording: Recording) -> None:
    recording.broker.may_lead = False
    recording.recorder.add(ended())
    assert recording.append() == 0
    recording.broker.may_lead = True
    assert recording.append() == 1
    assert len(recording.events()) == 1


def test_only_so_many_events_wait_and_the_others_are_counted(recording: Recording) -> None:
    recording.set_delays_topic(topic(TOPIC, leader=2, leader_epoch=1, partition_epoch=1))
    for number in range(1, MAX_WAITING + 4):
        recording.recorder.add(ended(number))
    assert recording.metrics.delays_dropped == 3


def test_only_so_many_bytes_of_events_wait_and_the_others_are_counted(recording: Recording) -> None:
    recording.set_delays_topic(topic(TOPIC, leader=2, leader_epoch=1, partition_epoch=1))
    large = ended(keys=("k" * MAX_TEXT,) * MAX_KEYS)
    one = len(json.dumps(event_of(large, BrokerIncarnation(1, 1), 0), separators=(",", ":")))
    fit = -(-MAX_WAITING_BYTES // one)
    for _ in range(fit + 20):
        recording.recorder.add(large)
    assert 0 <= recording.metrics.delays_dropped - 20 <= 1
    recording.set_delays_topic(topic(TOPIC, leader=1, leader_epoch=2, partition_epoch=2))
    recording.append()
    dropped = recording.metrics.delays_dropped
    for _ in range(fit - 1):
        recording.recorder.add(large)
    assert recording.metrics.delays_dropped == dropped, "what was appended waits no longer"


def test_large_events_are_appended_few_at_a_time(recording: Recording) -> None:
    digits = random.Random(1)
    for number in range(1, 101):  # they hardly get smaller by compression, and together exceed the topic's limit
        keys = tuple("".join(digits.choices("0123456789abcdef", k=MAX_TEXT)) for _ in range(MAX_KEYS))
        recording.recorder.add(ended(number, keys=keys))
    assert recording.append() >= 100 * MAX_KEYS * MAX_TEXT // BATCH_BYTES
    assert [event["id"] for event in recording.events()] == list(range(1, 101))
    assert recording.metrics.delays_dropped == 0


def test_events_that_the_topic_refuses_are_counted_and_do_not_block_those_behind_them(recording: Recording) -> None:
    recording.set_delays_topic(topic(TOPIC, partition_epoch=1, **{"max_message_bytes": "10"}))
    recording.recorder.add(ended(1))
    recording.append()
    recording.set_delays_topic(topic(TOPIC, partition_epoch=2))
    recording.recorder.add(ended(2))
    recording.append()
    assert [event["id"] for event in recording.events()] == [2]
    assert (recording.metrics.delays_recorded, recording.metrics.delays_dropped) == (1, 1)
