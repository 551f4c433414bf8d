"""Subscriptions and assignments of consumers, against kafka-python and kio, which read and write the same bytes."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from kafka.protocol.consumer import metadata as kafka_python
from kio.serial import entity_reader, entity_writer

from purgatorio.protocol.consumer_protocol import (
    ASSIGNMENT,
    MAX_ELEMENTS,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from purgatorio.protocol.errors import DecodeError, TooManyElements
from purgatorio.protocol.message import Message
from purgatorio.protocol.versioned import VersionedCodec
from tests.protocol.kio_values import same, written
from tests.protocol.random_messages import Maker

ROUNDS = 20
CASES = [
    pytest.param(codec, version, id=f"{codec.cls.__name__}-{version}")
    for codec in (SUBSCRIPTION, ASSIGNMENT)
    for version in codec.versions
]


def random_message(codec: VersionedCodec[Any], version: int, number: int) -> Any:
    return Maker(f"{codec.cls.__name__} {version} {number}", version).message(codec.cls)


@pytest.mark.parametrize(("codec", "version"), CASES)
def test_what_is_written_is_read(codec: VersionedCodec[Message], version: int) -> None:
    for number in range(ROUNDS):
        message = random_message(codec, version, number)
        assert codec.decode(codec.encode(message, version)) == message


@pytest.mark.parametrize(("codec", "version"), CASES)
def test_kio_reads_and_writes_the_same(codec: VersionedCodec[Message], version: int) -> None:
    name = codec.cls.__name__
    folder = {"Subscription": "consumer_protocol_subscription", "Assignment": "consumer_protocol_assignment"}
    module = importlib.import_module(f"kio.schema.{folder[name.removeprefix('ConsumerProtocol')]}.v{version}.data")
    theirs_type = getattr(module, name)
    for number in range(ROUNDS):
        message = random_message(codec, version, number)
        data = codec.encode(message, version)
        theirs, size_bytes = entity_reader(theirs_type)(data, 2)
        assert size_bytes == len(data) - 2
        assert same(message, theirs)
        assert written(entity_writer(theirs_type), theirs) == data[2:]


@pytest.mark.parametrize(("codec", "version"), CASES)
def test_kafka_python_reads_and_writes_the_same(codec: VersionedCodec[Message], version: int) -> None:
    theirs_type = getattr(kafka_python, codec.cls.__name__)
    for number in range(ROUNDS):
        data = codec.encode(random_message(codec, version, number), version)
        theirs = theirs_type.decode(data)
        assert theirs.encode(version=version) == data


def test_the_bytes_of_a_subscription() -> None:
    """Worked out by hand from Kafka's definition."""
    subscription = ConsumerProtocolSubscription(
        topics=["a"],
        user_data=b"u",
        owned_partitions=[TopicPartitions(topic="a", partitions=[3])],
        generation_id=4,
        rack_id="r",
    )
    topics, user_data = "00000001 0001 61", "00000001 75"
    owned, generation, rack = "00000001 0001 61 00000001 00000003", "00000004", "0001 72"
    assert SUBSCRIPTION.encode(subscription, 0) == bytes.fromhex("0000" + topics + user_data)
    assert SUBSCRIPTION.encode(subscription, 1) == bytes.fromhex("0001" + topics + user_data + owned)
    assert SUBSCRIPTION.encode(subscription, 2) == bytes.fromhex("0002" + topics + user_data + owned + generation)
    assert SUBSCRIPTION.encode(subscription, 3) == bytes.fromhex(
        "0003" + topics + user_data + owned + generation + rack
    )
    assert SUBSCRIPTION.encode(ConsumerProtocolSubscription(), 0) == bytes.fromhex("0000 00000000 ffffffff")


@pytest.mark.parametrize("codec", [SUBSCRIPTION, ASSIGNMENT])
def test_a_newer_version_is_read_as_version_3(codec: VersionedCodec[Message]) -> None:
    message = codec.cls()
    assert codec.decode(b"\x00\x04" + codec.encode(message, 3)[2:] + b"more") == message


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff" + bytes(20), b"\x00\x00\x7f\xff\xff\xff", b"range"])
def test_other_bytes_are_an_error(data: bytes) -> None:
    """Members of groups that are not consumers send what they like."""
    for codec in (SUBSCRIPTION, ASSIGNMENT):
        with pytest.raises(DecodeError):
            codec.decode(data)


def test_topics_and_partitions_are_limited() -> None:
    def assigned(partitions: int) -> bytes:
        named = [TopicPartitions(topic="t", partitions=list(range(partitions)))]
        return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=named), 3)

    ASSIGNMENT.decode(assigned(MAX_ELEMENTS - 1))
    with pytest.raises(TooManyElements):
        ASSIGNMENT.decode(assigned(MAX_ELEMENTS))
    with pytest.raises(TooManyElements):
        SUBSCRIPTION.decode(SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=[""] * (MAX_ELEMENTS + 1)), 0))
