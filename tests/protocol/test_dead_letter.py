"""The headers of dead letters, as Kafka 4.4's brokers write them."""

from __future__ import annotations

import pytest

from purgatorio.protocol.dead_letter import DELIVERY_LIMIT, REJECTED, DeadLetterHeaders

TOLD = DeadLetterHeaders("ordérs", 3, 2**40, "jobs", 5, DELIVERY_LIMIT)
WIRE = (
    ("__dlq.errors.topic", "ordérs".encode()),
    ("__dlq.errors.partition", b"3"),
    ("__dlq.errors.offset", b"1099511627776"),
    ("__dlq.errors.group", b"jobs"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
)


def test_headers_are_text_in_kafkas_order() -> None:
    assert TOLD.encode() == WIRE
    assert DeadLetterHeaders.decode(WIRE) == TOLD
    assert REJECTED == "Offset rejected by client."


def test_other_headers_are_left_alone_and_the_last_of_a_name_counts() -> None:
    headers = (("trace", b"\xff"), ("__dlq.errors.offset", b"7"), ("null", None), *WIRE)
    assert DeadLetterHeaders.decode(headers) == TOLD


def test_count_and_message_may_be_missing() -> None:
    told = TOLD._replace(delivery_count=None, message=None)
    assert told.encode() == WIRE[:4]
    assert DeadLetterHeaders.decode(WIRE[:4]) == told


@pytest.mark.parametrize(
    "headers",
    [
        (),
        WIRE[1:],
        WIRE[:3],
        (*WIRE, ("__dlq.errors.partition", b"three")),
        (*WIRE, ("__dlq.errors.delivery.count", b"")),
        (*WIRE, ("__dlq.errors.group", b"\xff")),
        (*WIRE, ("__dlq.errors.offset", None)),
    ],
)
def test_other_records_are_no_dead_letters(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    assert DeadLetterHeaders.decode(headers) is None
