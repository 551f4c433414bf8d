"""The printer fails, and the application is started again: is each order billed once?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import pytest
from bills import bill_orders

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it bills again what it had billed before")


class OutOfPaperError(Exception):
    """The printer's."""


@pytest.mark.parametrize("guarantee", [pytest.param("at-least-once", marks=BROKEN), "exactly-once"])
def test_each_order_is_billed_exactly_once(kafka, guarantee) -> None:
    """The printer fails at the third order, and prints it when the application is started again."""
    kafka.topic("orders")
    kafka.topic("bills")
    kafka.produce("orders", "tea", "cake", "juice")
    paper = 2

    def bill(order: str) -> str:
        nonlocal paper
        if not paper:
            paper = 100
            raise OutOfPaperError
        paper -= 1
        return order

    with pytest.raises(OutOfPaperError):
        bill_orders(kafka.bootstrap, guarantee, bill)
    bill_orders(kafka.bootstrap, guarantee, bill, count=3)
    bills = kafka.records("bills", isolation_level="read_committed")
    assert [record.value for record in bills] == [b"tea", b"cake", b"juice"]
