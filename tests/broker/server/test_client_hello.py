"""How much of a TLS client's first message is missing."""

from __future__ import annotations

import random

import pytest

from purgatorio.broker.server.client_hello import MAX_HELLO_BYTES, bytes_of_hello


def record(content: bytes, kind: int = 22) -> bytes:
    return bytes([kind, 3, 1]) + len(content).to_bytes(2) + content


def hello(size: int) -> bytes:
    return b"\x01" + size.to_bytes(3) + bytes(size)


def test_a_message_in_one_record_is_whole_at_its_last_byte() -> None:
    whole = record(hello(500))
    assert bytes_of_hello(b"") == 5
    for cut in (1, 4, 5, 6, 8, 100, len(whole) - 1):
        assert bytes_of_hello(whole[:cut]) > cut, cut
    assert bytes_of_hello(whole[:9]) == bytes_of_hello(whole) == len(whole)
    assert bytes_of_hello(whole + b"more") == len(whole)


@pytest.mark.parametrize("pieces", [[1, 1, 1, 600], [3, 500, 101], [200, 404]])
def test_a_message_that_is_cut_into_records_is_whole_with_the_last_one(pieces: list[int]) -> None:
    message, whole = hello(sum(pieces) - 4), b""
    for size in pieces:
        whole += record(message[:size])
        message = message[size:]
    assert all(bytes_of_hello(whole[:cut]) > cut for cut in range(len(whole)))
    assert bytes_of_hello(whole) == len(whole)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\0\0\0\x10" + bytes(16),
        record(b"\x02\x28", kind=21),
        record(b""),
        record(b"\x02" + bytes(9)),
    ],
)
def test_what_is_no_hello_can_be_answered_at_once(data: bytes) -> None:
    assert bytes_of_hello(data) <= len(data)


def test_no_more_is_waited_for_than_the_bound() -> None:
    assert bytes_of_hello(record(b"\x01\xff\xff\xff" + bytes(16_000)) * 3) == MAX_HELLO_BYTES


def test_any_bytes_have_an_answer_within_the_bound() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        data = bytes(rng.choice((0, 1, 2, 3, 22, 255)) for _ in range(rng.randrange(40)))
        assert 0 <= bytes_of_hello(data) <= MAX_HELLO_BYTES + len(data)
