from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from purgatorio.admin.web import guard
from purgatorio.admin.web.guard import check_may_change

FOLLOWER = "/api/v1/brokers/2/follower"
JSON = {"content-type": "application/json"}


def refused(**headers: str) -> int:
    """The status with which a request is refused; 0 if it is not."""
    names = {"host": "localhost:9644", "content-type": "application/json"} | headers
    try:
        check_may_change(Headers({name.replace("_", "-"): value for name, value in names.items()}), "admin.example")
    except HTTPException as error:
        return error.status_code
    return 0


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:9644",
        "LOCALHOST:9644",
        "127.0.0.1:9644",
        "10.1.2.3",
        "[::1]:9644",
        "[::1]",
        "Admin.Example:1",
    ],
)
def test_addresses_localhost_and_the_configured_host_may_be_asked(host: str) -> None:
    assert refused(host=host) == 0


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:9644",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1",
        "user@evil:1",
        ":9644",
    ],
)
def test_any_other_host_name_is_refused(host: str) -> None:
    """DNS rebinding: another site's name that resolves to this machine makes its origin equal to the host."""
    assert refused(host=host) == 403


@pytest.mark.parametrize("origin", ["http://localhost:9644", "https://localhost:9644", "HTTP://LOCALHOST:9644"])
def test_the_page_itself_may_ask(origin: str) -> None:
    assert refused(origin=origin) == 0


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost",
        "http://localhost:9645",
        "http://127.0.0.1:9644",
        "null",
        "",
        "file://",
    ],
)
def test_a_page_of_another_site_may_not(origin: str) -> None:
    assert refused(origin=origin) == 403


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_taken(content_type: str) -> None:
    assert refused(content_type=content_type) == 0


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_what_a_form_can_send_is_not(content_type: str) -> None:
    assert refused(content_type=content_type) == 415


async def test_an_origin_that_is_no_url_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post(FOLLOWER, json={"held": True}, headers={"origin": "http://[evil"})
    assert (response.status_code, response.json()) == (403, {"error": "this is a request from another site"})


async def test_a_body_in_parts_is_bounded_too(client: httpx.AsyncClient) -> None:
    """Without a Content-Length, the bytes that came are counted."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    response = await client.post(FOLLOWER, content=parts(), headers=JSON)
    assert response.status_code == 413


async def test_a_body_that_does_not_come_is_given_up(client: httpx.AsyncClient, cluster: Any) -> None:
    """After `BODY_TIMEOUT_MS` of the cluster's clock."""

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    asked = asyncio.create_task(client.post(FOLLOWER, content=never(), headers=JSON))
    await cluster.clock.run_for(guard.BODY_TIMEOUT_MS - 1)
    assert not asked.done()
    await cluster.clock.run_for(1)
    response = await asked
    assert (response.status_code, response.json()) == (408, {"error": "the body did not come within 5 s"})


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/metrics", "/api/v1/state", "/nothing"])
async def test_every_answer_carries_the_security_headers(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert {name: response.headers.get(name) for name in guard.SECURITY_HEADERS} == guard.SECURITY_HEADERS


def test_the_policy_lets_nothing_in_but_our_own_files() -> None:
    policy = guard.SECURITY_HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
