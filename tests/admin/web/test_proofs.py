"""Requests of brokers' pages to each other, which prove that they come from a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from purgatorio.admin.web import proofs as module
from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest
from purgatorio.admin.web.proofs import CHALLENGE_MS, SCHEME, TOLD, ProofGuard, Proofs, asked_as
from purgatorio.admin.web.tokens import AdminTokens, TokenGuard
from purgatorio.purgatory.clock import ManualClock

TOKEN = "a token of the cluster"
NONCE = "ab" * 16
PAGE = "http://10.0.0.11:9645"


async def handler(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} {request.url.path} done", 202)


APP = Starlette(routes=[Route("/api", handler, methods=["GET", "POST"])])


@dataclass
class Host:
    """A broker's admin HTTP, and one that asks it."""

    broker_id: int = 2
    token: str = TOKEN
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        proofs = Proofs(self.token, asked_as(self.broker_id, PAGE))
        self.guard = ProofGuard(APP, TokenGuard(APP, AdminTokens(self.token)), proofs, self.clock)

    async def send(self, authorization: str, method: str = "GET", target: str = "/api", body: str = "") -> Any:
        transport = httpx.ASGITransport(self.guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            headers = {"authorization": authorization}
            return await asking.request(method, target, headers=headers, content=body.encode())

    async def nonces(self) -> str:
        answer = await self.send(f"{SCHEME} {NONCE}")
        assert answer.status_code == 401
        return f"{NONCE}.{answer.headers['www-authenticate'].removeprefix(f'{SCHEME} ')}"


def proven(nonces: str, asked: ForwardedRequest, *, token: str = TOKEN, broker_id: int = 2, page: str = PAGE) -> str:
    return f"{SCHEME} {nonces}.{Proofs(token, asked_as(broker_id, page)).of_request(nonces, asked)}"


ASKED = ForwardedRequest("GET", "/api", {})


@pytest.mark.parametrize("asked", [ASKED, ForwardedRequest("POST", "/api?full=1&name=a%20b", {}, '{"name": "ö"}')])
async def test_a_broker_asks_without_its_token_and_knows_who_answers(asked: ForwardedRequest) -> None:
    host = Host()
    nonces = await host.nonces()
    answer = await host.send(proven(nonces, asked), asked.method, asked.target, asked.body)
    assert (answer.status_code, answer.text) == (202, f"{asked.method} /api done")
    told = ForwardedAnswer(202, answer.headers["content-type"], answer.text)
    assert answer.headers[TOLD] == Proofs(TOKEN, asked_as(2, PAGE)).of_answer(nonces, told)
    assert TOKEN not in str(answer.request.headers) + str(answer.headers)


@pytest.mark.parametrize(
    "authorization",
    [
        lambda nonces: proven(nonces, ASKED, token="another token of others"),
        lambda nonces: proven(nonces, ASKED, broker_id=3),
        lambda nonces: proven(nonces, ASKED, page="http://10.0.0.11:9655"),
        lambda nonces: proven(nonces, ASKED._replace(method="POST")),
        lambda nonces: proven(nonces, ASKED._replace(target="/api?more")),
        lambda nonces: proven(nonces, ASKED._replace(body="{}")),
        lambda nonces: proven(f"{NONCE}.0-00", ASKED),
        lambda nonces: proven(f"{NONCE}.x-00", ASKED),
        lambda nonces: proven(nonces.replace("ab", "cd"), ASKED),
        lambda nonces: f"{SCHEME} {nonces}.",
        lambda nonces: f"{SCHEME} {nonces}",
    ],
)
async def test_another_token_broker_address_request_or_challenge_is_refused(authorization: Any) -> None:
    """What was proved to one broker is of no use at another one."""
    host = Host()
    answer = await host.send(authorization(await host.nonces()))
    assert (answer.status_code, TOLD in answer.headers) == (401, False)
    assert "no request of another broker" in answer.json()["error"]


async def test_a_request_that_was_heard_is_refused_later() -> None:
    """At once, since its challenge was answered, and when that is forgotten, since it is too old."""
    host = Host()
    heard = proven(await host.nonces(), ASKED)
    assert (await host.send(heard)).status_code == 202
    assert (await host.send(heard)).status_code == 401
    for wait_ms in (1, CHALLENGE_MS, CHALLENGE_MS):
        host.clock.advance_ms(wait_ms)
        assert (await host.send(heard)).status_code == 401
        assert (await host.send(proven(await host.nonces(), ASKED))).status_code == 202
    late = proven(await host.nonces(), ASKED)
    host.clock.advance_ms(CHALLENGE_MS + 1)
    assert (await host.send(late)).status_code == 401
    assert (await Host().send(heard)).status_code == 401


async def test_only_so_many_answered_challenges_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are asked for are not: anybody may do so."""
    monkeypatch.setattr(module, "MAX_ANSWERED", 2)
    host = Host()
    answers = []
    for _ in range(3):
        host.clock.advance_ms(1)
        answers.append((await host.send(proven(await host.nonces(), ASKED))).status_code)
    assert answers == [202, 202, 401]
    host.clock.advance_ms(CHALLENGE_MS + 1)
    assert (await host.send(proven(await host.nonces(), ASKED))).status_code == 202


async def test_others_need_a_token_and_a_long_nonce_or_body_is_refused() -> None:
    host = Host()
    assert (await host.send(f"Bearer {TOKEN}")).text == "GET /api done"
    assert (await host.send("Bearer no")).status_code == 401
    assert (await host.send(f"{SCHEME} {'a' * 65}")).status_code == 400
    too_long = await host.send(proven(await host.nonces(), ASKED), "POST", body="x" * 30_000_000)
    assert too_long.status_code == 413
