"""A rebalance comes while an order is in work, and later ones are done: is each order billed?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import asyncio
import contextlib

import pytest
from billing_at_once import bill_orders
from progress import ContiguousPrefix, HighestDone

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it commits past an order that is in work")


class Printer:
    """Prints bills; the first one jams the first time, so that later ones overtake it."""

    def __init__(self) -> None:
        self.printed: list[bytes] = []
        self.jammed = False
        self.cleared = asyncio.Event()

    async def bill(self, order: bytes) -> None:
        """Print a bill."""
        if order == b"tea" and not self.jammed:
            self.jammed = True
            await asyncio.Event().wait()
        self.printed.append(order)
        if order == b"tea":
            self.cleared.set()


@pytest.mark.parametrize("progress", [pytest.param(HighestDone, marks=BROKEN), ContiguousPrefix])
async def test_each_order_is_billed(kafka, progress) -> None:
    """The session of the only member expires: its partition is taken from it, and given to it anew."""
    kafka.topic("orders")
    kafka.produce("orders", "tea", "cake", "juice")
    printer = Printer()
    commits = kafka.fault(api="OffsetCommit", observe=True)
    settings = kafka.client_config("aiokafka", "consumer")
    running = asyncio.create_task(bill_orders(settings, printer.bill, progress))
    await commits.until_fired(2)
    kafka.expire_member("billing")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(printer.cleared.wait(), 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert set(printer.printed) == {b"tea", b"cake", b"juice"}
