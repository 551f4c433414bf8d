"""Dead letters: records of a share group's dead-letter topic, whose headers name the original record (KIP-1191).

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
    """The headers of a dead letter, decoded.

    Attributes:
        topic, partition, offset: the position of the original record.
        group_id: the share group that could not process the record.
        delivery_count: how often the record was delivered; None: the header is missing.
        message: the reason for the dead letter; None: the header is missing.
    """

    topic: str
    partition: int
    offset: int
    group_id: str
    delivery_count: int | None
    message: str | None

    def encode(self) -> Headers:
        """Return the headers of a record, in Kafka's order."""
        fields = (
            (TOPIC, self.topic),
            (PARTITION, self.partition),
            (OFFSET, self.offset),
            (GROUP, self.group_id),
            (DELIVERY_COUNT, self.delivery_count),
            (MESSAGE, self.message),
        )
        return tuple((name, str(value).encode()) for name, value in fields if value is not None)

    @staticmethod
    def decode(headers: Sequence[tuple[str, bytes | None]]) -> DeadLetterHeaders | None:
        """Read the headers of a record; None if it is no dead letter, or they are malformed."""
        fields = dict(headers)
        try:
            count, message = fields.get(DELIVERY_COUNT), fields.get(MESSAGE)
            return DeadLetterHeaders(
                _text(fields.get(TOPIC)),
                int(_text(fields.get(PARTITION))),
                int(_text(fields.get(OFFSET))),
                _text(fields.get(GROUP)),
                None if count is None else int(count),
                None if message is None else message.decode(),
            )
        except ValueError:
            return None


def _text(value: bytes | None) -> str:
    if value is None:
        raise ValueError("a header is missing")
    return value.decode()
