"""Tokens of the admin HTTP: what needs which, and how they are given."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.web.tokens import AdminTokens, TokenGuard
from purgatorio.broker.config.sources import ConfigError, load_cluster_config
from tests.logs import capture_logs

FULL, READ = "a token that does all", "a token that reads"


async def handler(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} done")


APP = Starlette(routes=[Route(path, handler, methods=["GET", "POST"]) for path in ("/", "/healthz", "/readyz", "/api")])


def client(read: str | None = READ) -> httpx.AsyncClient:
    app = TokenGuard(APP, AdminTokens(FULL, read))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:9644")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("method", "token", "status"),
    [
        ("GET", FULL, 200),
        ("POST", FULL, 200),
        ("GET", READ, 200),
        ("POST", READ, 403),
        ("GET", "another", 401),
        ("POST", "another", 401),
        ("GET", "", 401),
    ],
)
async def test_a_token_opens_what_it_is_for(method: str, token: str, status: int) -> None:
    async with client() as asking:
        answer = await asking.request(method, "/api", headers=bearer(token))
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_without_a_token_only_health_checks_are_answered() -> None:
    async with client() as asking:
        assert [(await asking.get(path)).status_code for path in ("/", "/api", "/nothing")] == [401, 401, 401]
        assert [(await asking.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]


async def test_without_a_token_to_read_there_is_just_the_one() -> None:
    async with client(read=None) as asking:
        assert (await asking.get("/api", headers=bearer(""))).status_code == 401
        assert (await asking.get("/api", headers=bearer(FULL))).status_code == 200


@pytest.mark.parametrize(("token", "may_change"), [(FULL, True), (READ, False)])
async def test_a_browser_opens_the_page_once_with_the_token_and_then_has_a_cookie(token: str, may_change: bool) -> None:
    async with client() as asking:
        first = await asking.get("/", params={"token": token})
        assert (first.status_code, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"]
        assert cookie.startswith("purgatorio_token_9644=")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert (await asking.get("/")).text == "GET done"
        assert (await asking.post("/api")).status_code == (200 if may_change else 403)


async def test_a_wrong_token_in_the_address_sets_no_cookie_and_one_elsewhere_is_no_token() -> None:
    async with client() as asking:
        wrong = await asking.get("/", params={"token": "guessed"})
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers
        assert (await asking.get("/api", params={"token": FULL})).status_code == 401


@pytest.mark.parametrize("cookie", ["purgatorio_token_9644", 'x="', "purgatorio_token_9644=guessed"])
async def test_cookies_that_are_none_are_no_token(cookie: str) -> None:
    async with client() as asking:
        assert (await asking.get("/api", headers={"Cookie": cookie})).status_code == 401


async def _statuses(**settings: str) -> tuple[str, list[int]]:
    given = {"brokers": "1", "port": "0", "admin_port": "0", **settings}
    async with Cluster(load_cluster_config(settings=given)) as cluster, httpx.AsyncClient() as asking:
        port = cluster.admin.address[1]
        found = []
        for token in (None, FULL, READ):
            headers = {} if token is None else bearer(token)
            found.append((await asking.get(f"http://127.0.0.1:{port}/api/v1/state", headers=headers)).status_code)
        if FULL not in settings.values():
            page = await asking.get(cluster.page_url, follow_redirects=True)
            assert page.status_code == 200, "the address that is printed opens the page"
        return cluster.page_url, found


async def test_on_this_machine_no_token_is_needed_unless_it_is_set() -> None:
    assert (await _statuses())[1] == [200, 200, 200]
    assert (await _statuses(admin_token=FULL, admin_read_token=READ))[1] == [401, 200, 200]


async def test_beyond_this_machine_there_is_a_token_of_its_own_each_time() -> None:
    with capture_logs() as logs:
        first, statuses = await _statuses(admin_host="0.0.0.0")
    assert statuses == [401, 401, 401]
    again, _ = await _statuses(admin_host="0.0.0.0")
    token = first.partition("?token=")[2]
    assert len(token) >= 32
    assert token != again.partition("?token=")[2]
    assert token not in str(logs)


async def test_a_token_that_was_set_is_not_printed() -> None:
    url, _ = await _statuses(admin_host="0.0.0.0", admin_token=FULL)
    assert "token" not in url


async def test_whoever_wants_an_open_address_has_to_say_so() -> None:
    url, statuses = await _statuses(admin_host="0.0.0.0", admin_auth="none")
    assert (statuses, "token" in url) == ([200, 200, 200], False)


def test_a_short_token_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        load_cluster_config(settings={"admin.token": "short one"})
    assert str(refused.value) == "admin.token must have at least 16 characters"
    with pytest.raises(ConfigError, match="no change would be possible"):
        load_cluster_config(settings={"admin.read.token": READ})
