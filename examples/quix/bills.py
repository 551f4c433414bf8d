"""An application of Quix Streams that makes a bill of each order: by default at least once, or exactly once."""

from collections.abc import Callable
from typing import Literal

from quixstreams import Application


def bill_orders(
    address: str,
    guarantee: Literal["at-least-once", "exactly-once"],
    bill: Callable[[str], str],
    count: int = 0,
) -> None:
    """Bill orders, until it is stopped or has billed so many.

    Args:
        guarantee: with "at-least-once", Quix's default, what was billed since the last checkpoint is billed again after
            a crash. With "exactly-once" a checkpoint is a transaction, and readers need isolation.level=read_committed.
    """
    application = Application(
        broker_address=address,
        consumer_group="billing",
        auto_offset_reset="earliest",
        processing_guarantee=guarantee,
        loglevel=None,
    )
    orders = application.topic("orders", value_deserializer="str")
    bills = application.topic("bills", value_serializer="str")
    application.dataframe(orders).apply(bill).to_topic(bills)
    application.run(count=count, timeout=10)
