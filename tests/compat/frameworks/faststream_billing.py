"""A service of FastStream: bills each order."""

import asyncio
import os

from faststream import FastStream
from faststream.confluent import KafkaBroker

broker = KafkaBroker(os.environ["BOOTSTRAP"])


@broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
@broker.publisher("bills")
async def bill(order: str) -> str:
    """Return the bill of an order."""
    return f"{order} billed"


asyncio.run(FastStream(broker).run())
