"""Answers that pages share: made once, seldom if they are dear, and never older than a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from purgatorio.admin.operations.brokers import ListBrokers
from purgatorio.admin.operations.purgatories import Matrix, State
from purgatorio.admin.web.sharing import (
    AGE_HEADER,
    BUDGET,
    MAX_STRETCH,
    MAX_VARIANTS,
    NEXT_HEADER,
    SENDING_MS,
    SharedAnswers,
)
from purgatorio.purgatory.clock import ManualClock

SHARED = {"Cache-Control": "max-age=10"}


class Pages:
    """Pages that ask for answers, each of which takes a time to make."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.shared = SharedAnswers(self.clock)
        self.made = 0
        self.cost_ms = 0.0
        self.answer: dict[str, Any] = {"rows": [1, 2]}

    async def make(self) -> dict[str, Any]:
        self.made += 1
        self.clock.advance_ms(self.cost_ms)
        return {"now_ms": self.clock.now_ms(), **self.answer}

    async def ask(self, kind: Any = State, query: str = "", **headers: str) -> Response | None:
        told = {**SHARED, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": raw}
        return await self.shared.answer(kind, Request(scope), self.make)

    async def next_ms(self, kind: Any = State, times: int = 1) -> int:
        """Ask so many times, and return when to ask again."""
        for _ in range(times):
            response = await self.ask(kind)
        assert response is not None
        return int(response.headers[NEXT_HEADER])


@pytest.fixture
def pages() -> Pages:
    return Pages()


async def test_pages_get_the_same_bytes_until_the_round_ends(pages: Pages) -> None:
    first = await pages.ask()
    pages.clock.advance_ms(150)
    second = await pages.ask()
    assert first is not None
    assert second is not None
    assert (pages.made, second.body) == (1, first.body)
    assert (second.headers[AGE_HEADER], second.headers[NEXT_HEADER]) == ("150", "50")
    pages.clock.advance_ms(50)
    await pages.ask()
    assert pages.made == 2


@pytest.mark.parametrize("header", ["", "no-cache", "max-age", "max-age=x", "x-max-age=1", "max-age=99999999999"])
async def test_a_request_that_does_not_say_so_gets_an_answer_of_its_own(pages: Pages, header: str) -> None:
    assert await pages.ask(Cache_Control=header) is None
    assert pages.made == 0


async def test_other_operations_are_not_shared(pages: Pages) -> None:
    assert await pages.ask(ListBrokers) is None


async def test_an_answer_is_no_older_than_the_request_allows(pages: Pages) -> None:
    await pages.ask()
    pages.clock.advance_ms(10)
    await pages.ask(Cache_Control="private, max-age=0")
    assert pages.made == 2


async def test_other_queries_have_other_answers_up_to_a_limit(pages: Pages) -> None:
    for _ in range(2):
        for number in range(MAX_VARIANTS + 1):
            await pages.ask(query=f"operations={number}")
    assert pages.made == MAX_VARIANTS + 2, "the one beyond the limit is made each time"


async def test_a_change_is_in_the_next_answer(pages: Pages) -> None:
    await pages.ask()
    pages.shared.changed()
    await pages.ask()
    assert pages.made == 2


async def test_what_was_made_while_something_changed_is_not_kept(pages: Pages) -> None:
    async def make_meanwhile() -> dict[str, Any]:
        pages.shared.changed()
        return {}

    make, pages.make = pages.make, make_meanwhile  # type: ignore[method-assign]
    await pages.ask()
    pages.make = make  # type: ignore[method-assign]
    await pages.ask()
    assert pages.made == 1


async def test_an_answer_that_is_being_made_is_waited_for(pages: Pages) -> None:
    go_on = asyncio.Event()
    make = pages.make

    async def make_slowly() -> dict[str, Any]:
        await go_on.wait()
        return await make()

    pages.make = make_slowly  # type: ignore[method-assign]
    asked = [asyncio.create_task(pages.ask()) for _ in range(3)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*asked)
    assert pages.made == 1


async def test_a_failure_is_told_and_the_next_request_tries_again(pages: Pages) -> None:
    async def fail() -> dict[str, Any]:
        raise ValueError("no broker answers")

    make, pages.make = pages.make, fail  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="no broker"):
        await pages.ask()
    pages.make = make  # type: ignore[method-assign]
    assert await pages.ask() is not None


async def test_what_has_not_changed_but_for_the_time_is_not_sent_again(pages: Pages) -> None:
    first = await pages.ask(Matrix)
    assert first is not None
    pages.clock.advance_ms(1_000)
    second = await pages.ask(Matrix, If_None_Match=first.headers["ETag"])
    assert second is not None
    assert (pages.made, second.status_code, second.body) == (2, 304, b"")
    pages.answer = {"rows": [1]}
    pages.clock.advance_ms(1_000)
    third = await pages.ask(Matrix, If_None_Match=first.headers["ETag"])
    assert third is not None
    assert (third.status_code, bytes(third.body)) == (200, b'{"now_ms":2000,"rows":[1]}')


async def test_cheap_answers_are_made_at_the_shortest_interval(pages: Pages) -> None:
    for _ in range(10):
        assert await pages.next_ms() == 200
        pages.clock.advance_ms(200)


async def test_dear_answers_are_made_so_seldom_that_they_stay_within_the_budget(pages: Pages) -> None:
    pages.cost_ms = 20
    for _ in range(20):
        pages.clock.advance_ms(await pages.next_ms())
    length_ms = await pages.next_ms() + pages.cost_ms
    assert length_ms == pytest.approx((20 + SENDING_MS) / BUDGET, rel=0.05)


async def test_many_pages_ask_less_often(pages: Pages) -> None:
    for _ in range(20):
        pages.clock.advance_ms(await pages.next_ms(times=20))
    assert await pages.next_ms() == pytest.approx(20 * SENDING_MS / BUDGET, rel=0.05)


async def test_a_round_has_a_longest_time(pages: Pages) -> None:
    pages.cost_ms = 500
    for _ in range(20):
        pages.clock.advance_ms(await pages.next_ms())
    assert await pages.next_ms() + pages.cost_ms == 200 * MAX_STRETCH


async def test_what_no_page_asks_for_any_more_costs_nothing(pages: Pages) -> None:
    pages.cost_ms = 300
    for _ in range(5):
        pages.clock.advance_ms(await pages.next_ms(Matrix))
    pages.cost_ms = 0
    assert await pages.next_ms() > 200
    pages.clock.advance_ms(40_000)
    assert await pages.next_ms() == 200


# --- over HTTP ---


async def test_pages_share_the_state_and_see_a_change_at_once(cluster: Any, client: httpx.AsyncClient) -> None:
    first = await client.get("/api/v1/state", headers=SHARED)
    cluster.clock.advance_ms(5)
    second = await client.get("/api/v1/state", headers=SHARED)
    assert second.content == first.content
    assert (await client.get("/api/v1/state")).json()["now_ms"] == first.json()["now_ms"] + 5
    await client.post("/api/v1/brokers/3/follower", json={"held": True})
    third = (await client.get("/api/v1/state", headers=SHARED)).json()
    assert third["brokers"][2]["follower"]["held"]


async def test_a_refused_change_ends_the_round_as_well(
    cluster: Any, client: httpx.AsyncClient, state_of: Callable[..., Any]
) -> None:
    """An operation may have done a part of its work before it was refused."""
    first = await client.get("/api/v1/matrix", headers=SHARED)
    assert (await client.post("/api/v1/brokers/9/follower", json={"held": True})).status_code == 404
    cluster.has_topic("orders", state_of(1))
    assert (await client.get("/api/v1/matrix", headers=SHARED)).content != first.content
