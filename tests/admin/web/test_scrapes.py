"""Metrics that many ask for at the same time are made once for all that wait."""

from __future__ import annotations

import asyncio

import pytest

from purgatorio.admin.web.scrapes import Encode, SharedScrapes


class Making:
    """Makes texts when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.ends: list[asyncio.Future[None]] = []

    async def text(self, encode: Encode) -> bytes:
        self.begun += 1
        number = self.begun
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        await end
        return encode(number)


def plain(number: int) -> bytes:
    return b"plain %d" % number


def other(number: int) -> bytes:
    return b"other %d" % number


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_hundred_scrapes_are_made_twice_and_never_together() -> None:
    """The first one for whom it was begun, the second one for all that came since."""
    making = Making()
    scrapes = SharedScrapes(making.text)
    asked = [asyncio.create_task(scrapes.answer(plain, "text/plain")) for _ in range(100)]
    await turns()
    late = asyncio.create_task(scrapes.answer(plain, "text/plain"))
    for nth in range(2):
        assert making.begun == nth + 1
        making.ends[nth].set_result(None)
        for _ in range(10):
            await turns()
    bodies = [(await each).body for each in (*asked, late)]
    assert (bodies.count(b"plain 1"), bodies[0], bodies[-1], making.begun) == (1, b"plain 1", b"plain 2", 2)
    assert scrapes._made == {}


async def test_each_format_has_a_text_of_its_own() -> None:
    making = Making()
    scrapes = SharedScrapes(making.text)
    asked = [
        asyncio.create_task(scrapes.answer(encode, kind))
        for encode, kind in ((plain, "text/plain"), (other, "application/openmetrics-text"))
    ]
    for nth in range(2):
        await turns()
        making.ends[nth].set_result(None)
    answers = [await each for each in asked]
    assert [(each.body, each.headers["content-type"].partition(";")[0]) for each in answers] == [
        (b"plain 1", "text/plain"),
        (b"other 2", "application/openmetrics-text"),
    ]


async def test_a_scrape_that_fails_fails_alone() -> None:
    making = Making()
    scrapes = SharedScrapes(making.text)
    first, second = (asyncio.create_task(scrapes.answer(plain, "text/plain")) for _ in range(2))
    await turns()
    making.ends[0].set_exception(OSError("no thread"))
    await turns()
    making.ends[1].set_result(None)
    with pytest.raises(OSError, match="no thread"):
        await first
    assert (await second).body == b"plain 2"
