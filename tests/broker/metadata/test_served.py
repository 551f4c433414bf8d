"""Tests of a metadata store in another process, beside what every store promises (`test_embedded`, `test_leases`)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.keys import CLUSTER, UnknownFormat
from purgatorio.broker.metadata.served import (
    MAX_MESSAGE_BYTES,
    Decoder,
    Message,
    MessageError,
    ServedStore,
    StoreConnection,
    encode,
)
from purgatorio.purgatory.clock import ManualClock


@pytest.fixture
def store(turns: Any) -> EmbeddedStore:
    return EmbeddedStore("cluster", turns.call_soon, ManualClock())


@pytest.fixture
def sent() -> list[Message]:
    return []


@pytest.fixture
def connection(store: EmbeddedStore, sent: list[Message]) -> StoreConnection:
    return StoreConnection(store, sent.append)


def with_ids(image: ClusterImage, count: int = 1) -> ClusterImage:
    return dataclasses.replace(image, next_producer_id=image.next_producer_id + count)


def commit(store: EmbeddedStore) -> None:
    assert store._compare_and_set(store.image, with_ids(store.image))


def kinds(messages: list[Message]) -> list[str]:
    return [message[0] for message in messages]


def test_messages_come_whole_however_the_connection_cuts_them() -> None:
    messages: list[Message] = [["keep", 1, 7], ["image", {"a": "ü"}, [], []]]
    data = b"".join(map(encode, messages))
    decoder = Decoder()
    assert [message for at in range(len(data)) for message in decoder.feed(data[at : at + 1])] == messages
    assert Decoder().feed(data) == messages


@pytest.mark.parametrize(
    "data", [(MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\1{", b"\0\0\0\2{}", b"\0\0\0\2[]"]
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        Decoder().feed(data)


def test_an_unknown_message_is_refused(connection: StoreConnection, turns: Any) -> None:
    with pytest.raises(MessageError, match="'dance'"):
        connection.receive(["dance"])
    with pytest.raises(MessageError, match="'dance'"):
        ServedStore(lambda _: None, turns.call_soon).receive(["dance"])


def test_a_store_of_a_newer_version_is_refused(turns: Any) -> None:
    with pytest.raises(UnknownFormat):
        ServedStore(lambda _: None, turns.call_soon).receive(["image", {CLUSTER: '{"format":999}'}, [], []])


def test_the_first_image_is_whole_and_the_next_ones_are_what_changed(
    store: EmbeddedStore, connection: StoreConnection, sent: list[Message]
) -> None:
    commit(store)
    assert kinds(sent) == ["image", "image"]
    assert list(sent[1][1]) == [CLUSTER]


def test_a_process_that_does_not_read_gets_one_image_when_it_reads_again(
    store: EmbeddedStore, connection: StoreConnection, sent: list[Message], turns: Any
) -> None:
    here = ServedStore(lambda _: None, turns.call_soon)
    here.receive(sent.pop())
    connection.pause()
    for _ in range(3):
        commit(store)
    assert sent == []
    connection.resume()
    assert kinds(sent) == ["image"]
    here.receive(sent[0])
    assert here.image == store.image


def test_an_answer_to_a_process_that_does_not_read_comes_behind_the_image(
    store: EmbeddedStore, connection: StoreConnection, sent: list[Message]
) -> None:
    connection.pause()
    commit(store)
    connection.receive(["commit", 1, 0, {}, [], -1])
    assert kinds(sent) == ["image", "image", "answer"]
    assert sent[-1] == ["answer", 1, "conflict"]


def test_after_its_end_a_connection_sends_nothing(
    store: EmbeddedStore, connection: StoreConnection, sent: list[Message]
) -> None:
    connection.close()
    commit(store)
    assert kinds(sent) == ["image"]
