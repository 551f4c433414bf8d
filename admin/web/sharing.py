"""Answers that pages share: one that several pages request often is made once for all of them, and not too often.

A request says by ``Cache-Control: max-age=…`` (RFC 9111) that an answer which was made for another one will do; one
that does not gets an answer of its own. For each operation with a `shared_ms` there is a round of such answers: until
it ends, requests with the same query get the same bytes. A change through the admin HTTP ends all rounds, so that the
next request shows it.

The answers say when to ask again. Rounds become longer, all by the same factor, if making and sending the answers would
take more than `BUDGET` of a core: however many pages are open, and whatever they show, brokers keep the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from math import ceil, inf
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from purgatorio.admin.operations.declare import Answer, Operation
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock

BUDGET: Final = 0.025
"""The part of a core that the answers may take."""
MAX_STRETCH: Final = 10.0
"""So much longer a round may become."""
MAX_VARIANTS: Final = 16
"""Answers to different queries that are kept in a round."""
SENDING_MS: Final = 0.6
"""The cost of a request beside making its answer, as measured with ten pages that ask in turn."""
SENDING_MS_PER_MB: Final = 2.0
FORGOTTEN_MS: Final = 30_000
"""An operation that was not asked for during this time counts no more."""
NEXT_HEADER: Final = "Purgatorio-Next-Ms"
"""Milliseconds until a newer answer."""
AGE_HEADER: Final = "Purgatorio-Age-Ms"
"""The age of the answer in milliseconds."""

_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age=(\d{1,6})(?:$|[\s,])")

Make = Callable[[], Awaitable[Answer]]


class _Made:
    """An answer as bytes; `etag` stays the same while nothing but ``now_ms`` changes."""

    def __init__(self, answer: Answer, made_ms: float) -> None:
        self.made_ms = made_ms
        now = {name: answer[name] for name in ("now_ms",) if name in answer}
        rest = _compact({name: value for name, value in answer.items() if name not in now})
        self.etag = f'W/"{hashlib.blake2b(rest, digest_size=12).hexdigest()}"'
        self.body = _compact(now)[:-1] + b"," + rest[1:] if now and rest != b"{}" else rest


def _compact(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


class _Round:
    """The answers of one operation, until they are made anew."""

    def __init__(self) -> None:
        self.began_ms = self.ends_ms = 0.0
        self.answers: dict[str, _Made] = {}
        self.spent_ms = 0.0
        self.made_in_ms = inf
        self.demand = 0.0
        self.making = asyncio.Lock()


class SharedAnswers:
    """The answers that pages of one admin HTTP share.

    Args:
        clock: the machine's: people look at the page also while a test has stopped the brokers' clock.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._rounds: dict[type[Operation], _Round] = {}
        self._changes = 0

    def changed(self) -> None:
        """End all rounds, since something was changed on request."""
        self._changes += 1
        for each in self._rounds.values():
            each.ends_ms = 0

    async def answer(self, kind: type[Operation], request: Request, make: Make) -> Response | None:
        """Return a shared answer; None if the request wants one of its own.

        Raises:
            Exception: what `make` raises.
        """
        found = _MAX_AGE.search(request.headers.get("cache-control", "")) if kind.shared_ms else None
        if found is None:
            return None
        max_age_ms, query = int(found[1]) * 1000, request.url.query
        shared = self._rounds.setdefault(kind, _Round())
        async with shared.making:  # where others are asked for the answer, further requests wait for the same
            now = self._now_ms()
            if now >= shared.ends_ms or now - shared.began_ms > max_age_ms:
                self._begin(kind, shared, now)
            made = shared.answers.get(query)
            if made is None:
                made = await self._make(shared, query, make)
        shared.spent_ms += SENDING_MS + len(made.body) / 1e6 * SENDING_MS_PER_MB
        return self._response(kind, shared, made, request)

    def _now_ms(self) -> float:
        return self._clock.now_seconds() * 1000

    def _begin(self, kind: type[Operation], shared: _Round, now: float) -> None:
        shared.demand = (shared.demand + shared.spent_ms / kind.shared_ms) / 2 if shared.answers else 0.0
        shared.spent_ms = 0.0
        shared.answers = {}
        shared.began_ms = now
        shared.ends_ms = now + self._length_ms(kind, now)

    def _length_ms(self, kind: type[Operation], now: float) -> float:
        """Return how long a round of an operation is now."""
        demand = sum(each.demand for each in self._rounds.values() if now - each.began_ms < FORGOTTEN_MS)
        return kind.shared_ms * min(MAX_STRETCH, max(1.0, demand / BUDGET))

    async def _make(self, shared: _Round, query: str, make: Make) -> _Made:
        changes, began = self._changes, self._now_ms()
        made = _Made(await make(), began)
        spent = self._now_ms() - began
        shared.spent_ms += min(spent, shared.made_in_ms)  # a machine that is busy makes single answers look dear
        shared.made_in_ms = spent
        if changes == self._changes and len(shared.answers) < MAX_VARIANTS:
            shared.answers[query] = made
        return made

    def _response(self, kind: type[Operation], shared: _Round, made: _Made, request: Request) -> Response:
        now = self._now_ms()
        headers = {
            "Cache-Control": "no-store",
            "ETag": made.etag,
            AGE_HEADER: str(round(now - made.made_ms)),
            NEXT_HEADER: str(ceil(shared.ends_ms - now if shared.ends_ms > now else self._length_ms(kind, now))),
        }
        if request.headers.get("if-none-match") == made.etag:
            return Response(status_code=304, headers=headers)
        return Response(made.body, media_type="application/json", headers=headers)
