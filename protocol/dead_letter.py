"""Dead letters: the records of a share group's dead-letter topic, whose headers tell of the record behind (KIP-1191).

All values are text in UTF-8, numbers in decimal digits, as those that Kafka 4.4's brokers write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"

REJECTED: Final = "Offset rejected by client."
"""Kafka's message for a record that a member has rejected."""
DELIVERY_LIMIT: Final = "Offset delivery count exceeded the threshold."
"""Kafka's message for a record that was delivered share.delivery.count.limit times."""

Headers = tuple[tuple[str, bytes | None], ...]


class DeadLetterHeaders(NamedTuple):
    """What the headers of a dead letter tell.

    Attributes:
        topic, partition, offset: where the record is that was given up.
        group_id: the share group that has given it up.
        delivery_count: how often it was delivered; None: the header is missing.
        message: why it was given up; None: the header is missing.
    """

    topic: str
    partition: int
    offset: int
    group_id: str
    delivery_count: int | None
    message: str | None

    def encode(self) -> Headers:
        """Return the headers of a record, in Kafka's order."""
        told = (
            (TOPIC, self.topic),
            (PARTITION, self.partition),
            (OFFSET, self.offset),
            (GROUP, self.group_id),
            (DELIVERY_COUNT, self.delivery_count),
            (MESSAGE, self.message),
        )
        return tuple((name, str(value).encode()) for name, value in told if value is not None)

    @staticmethod
    def decode(headers: Sequence[tuple[str, bytes | None]]) -> DeadLetterHeaders | None:
        """Read the headers of a record; None if it is no dead letter, or they are malformed."""
        told = dict(headers)
        try:
            count, message = told.get(DELIVERY_COUNT), told.get(MESSAGE)
            return DeadLetterHeaders(
                _text(told.get(TOPIC)),
                int(_text(told.get(PARTITION))),
                int(_text(told.get(OFFSET))),
                _text(told.get(GROUP)),
                None if count is None else int(count),
                None if message is None else message.decode(),
            )
        except ValueError:
            return None


def _text(value: bytes | None) -> str:
    if value is None:
        raise ValueError("a header is missing")
    return value.decode()
