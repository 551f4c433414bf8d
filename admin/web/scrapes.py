"""Metrics that many ask for at the same time: they are made once for all that wait, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

Encode = Callable[..., bytes]
MakeText = Callable[[Encode], Awaitable[bytes]]
"""Reads the metrics and returns them as text."""

MAX_FORMATS: Final = 8
"""The most formats of which a text is kept; the client library has fewer."""


class SharedScrapes:
    """Makes one text at a time. A request gets one whose making began after it came, for which others may wait, too.

    So the brokers' event loop, and memory, have one scrape to bear, however many connections ask.

    Args:
        make: makes the text.
    """

    def __init__(self, make: MakeText) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._begun = 0
        self._made: dict[str, tuple[int, bytes]] = {}  # by content type: which one it was, and the text
        self._waiting = 0

    async def answer(self, encode: Encode, content_type: str) -> Response:
        """Return an answer with the text in a format."""
        begun_before = self._begun
        self._waiting += 1
        try:
            async with self._making:
                number, body = self._made.get(content_type, (0, b""))
                if number <= begun_before:
                    self._begun = number = self._begun + 1
                    body = await self._make(encode)
                    self._keep(content_type, number, body)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._made.clear()
        return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    def _keep(self, content_type: str, number: int, body: bytes) -> None:
        if len(self._made) >= MAX_FORMATS:
            self._made.clear()
        self._made[content_type] = number, body
