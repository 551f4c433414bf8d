"""Requests of one broker's page to another one's: both have the admin token, and neither sends it.

A broker of a cluster on several hosts asks at an address that the other one has left in etcd, where another process may
listen by then. So it asks for a challenge first: a nonce, which is good for one request. The request has a proof, a MAC
by a key made of the token, over both sides' nonces, the broker that is meant and its address, and what is asked; the
answer has one over the nonces and the answer. An overheard proof cannot be used again, at this broker or another one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest, ask
from purgatorio.admin.web.guard import read_body
from purgatorio.purgatory.clock import Clock

SCHEME: Final = "Purgatorio"
"""The scheme of Authorization, which has the nonce of the one that asks, the challenge's, and the proof."""
TOLD: Final = "x-purgatorio-proof"
"""The header with the proof of an answer."""
CHALLENGE_MS: Final = 10_000
"""How long a challenge is good."""
MAX_ANSWERED: Final = 10_000
"""The most challenges that are remembered because they were answered, so that none is answered twice."""
MAX_NONCE_CHARS: Final = 64
NONCE_BYTES: Final = 16


class Proofs:
    """Makes the proofs by which two brokers know each other in a request.

    Args:
        token: of the admin HTTP of all brokers.
        asked_broker: see `asked_as`.
    """

    def __init__(self, token: str, asked_broker: str) -> None:
        self._key = hmac.digest(token.encode(), b"requests of brokers to each other", "sha256")
        self._broker = asked_broker

    def of_request(self, nonces: str, asked: ForwardedRequest) -> str:
        """Return the proof that a request comes from a broker."""
        return self._mac("asks", nonces, asked.method, asked.target, asked.body)

    def of_answer(self, nonces: str, reply: ForwardedAnswer) -> str:
        """Return the proof that an answer comes from the broker that was asked."""
        return self._mac("tells", nonces, str(reply.status), reply.media_type, reply.body)

    def _mac(self, *parts: str) -> str:
        digests = (hashlib.sha256(each.encode()).digest() for each in (self._broker, *parts))
        return hmac.new(self._key, b"".join(digests), "sha256").hexdigest()


def asked_as(broker_id: int, page: str) -> str:
    """Return which broker is meant: its id, and where its admin HTTP is."""
    return f"broker {broker_id} at {page}"


class ProofGuard:
    """Answers requests of other brokers, and passes all others on.

    Args:
        app: answers those that have a proof.
        others: gets the others: another guard.
        proofs: those of this broker.
        clock: the time by which challenges age.
    """

    def __init__(self, app: ASGIApp, others: ASGIApp, proofs: Proofs, clock: Clock) -> None:
        self._app, self._others, self._proofs, self._clock = app, others, proofs, clock
        self._key = secrets.token_bytes()
        self._answered: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        given = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else ""
        scheme, _, given = given.partition(" ")
        if scheme != SCHEME:
            await self._others(scope, receive, send)
            return
        try:
            response = await self._answer(given, Request(scope, receive))
        except HTTPException as error:
            response = JSONResponse({"error": error.detail}, error.status_code)
        await response(scope, receive, send)

    async def _answer(self, given: str, request: Request) -> Response:
        nonce, _, rest = given.partition(".")
        if not rest:
            return Response(status_code=401, headers={"www-authenticate": f"{SCHEME} {self._challenge(nonce)}"})
        challenge, _, proof = rest.partition(".")
        nonces, proofs = f"{nonce}.{challenge}", self._proofs
        asked = ForwardedRequest.of(request, await read_body(request, self._clock))
        proven = hmac.compare_digest(proof.encode(), proofs.of_request(nonces, asked).encode())
        if not (proven and self._is_good(nonce, challenge)):
            raise HTTPException(401, "this is no request of another broker to this one now")
        reply = await ask(self._app, asked)
        headers = {"content-type": reply.media_type, TOLD: proofs.of_answer(nonces, reply)}
        return Response(reply.body, reply.status, headers)

    def _challenge(self, nonce: str) -> str:
        """Return a nonce of this side that is good with that one of the other."""
        if len(nonce) > MAX_NONCE_CHARS:
            raise HTTPException(400, f"a nonce has at most {MAX_NONCE_CHARS} characters")
        return self._made_at(nonce, self._clock.now_ms())

    def _made_at(self, nonce: str, now_ms: int) -> str:
        return f"{now_ms}-{hmac.new(self._key, f'{nonce} {now_ms}'.encode(), 'sha256').hexdigest()}"

    def _is_good(self, nonce: str, challenge: str) -> bool:
        """Return whether this side has made the challenge just now, for a first answer, which this is."""
        made, now_ms = challenge.partition("-")[0], self._clock.now_ms()
        made_ms = int(made) if made.isascii() and made.isdecimal() else -CHALLENGE_MS - 1
        if now_ms - made_ms > CHALLENGE_MS or not hmac.compare_digest(
            challenge.encode(), self._made_at(nonce, made_ms).encode()
        ):
            return False
        for answered, then_ms in list(self._answered.items()):
            if now_ms - then_ms <= CHALLENGE_MS:
                break
            del self._answered[answered]
        if challenge in self._answered or len(self._answered) >= MAX_ANSWERED:
            return False
        self._answered[challenge] = made_ms
        return True
