"""The printer fails, the service ends and is started again: is each order billed?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import asyncio
import contextlib

import pytest
from billing import bill_orders, bill_orders_broken

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it commits orders before they are billed")


class OutOfPaperError(Exception):
    """The printer's."""


class Printer:
    """Prints bills, but fails once, at the second one; `done` is set by the last order."""

    def __init__(self) -> None:
        self.printed: list[bytes] = []
        self.done = asyncio.Event()
        self._paper = 1

    async def bill(self, order: bytes) -> None:
        """Print a bill."""
        if self._paper == len(self.printed):
            self._paper = 100
            raise OutOfPaperError
        self.printed.append(order)
        if order == b"juice":
            self.done.set()


@pytest.mark.parametrize("service", [pytest.param(bill_orders_broken, marks=BROKEN), bill_orders])
async def test_each_order_is_billed(kafka, service) -> None:
    """Three orders are there; the second one fails when it comes first."""
    kafka.topic("orders")
    kafka.produce("orders", "tea", "cake", "juice")
    settings = kafka.client_config("aiokafka", "consumer")
    printer = Printer()
    with pytest.raises(OutOfPaperError):
        await service(settings, printer.bill)
    running = asyncio.create_task(service(settings, printer.bill))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(printer.done.wait(), 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert printer.printed == [b"tea", b"cake", b"juice"]
