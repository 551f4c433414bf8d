"""Metrics that many ask for at the same time: they are made once for all that wait, one after the other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

_VERSION: Final = re.compile(r";\s*version=(?!(?:0\.0\.1|0\.0\.4|1\.0\.0)\s*(?:[;,]|$))[^;,]*")
"""A version that no format has. The client library repeats one above 1.0.0 as that of its answer, so that each request
could have a format, and so a text, of its own; and fails by one that is no number."""


class Format(NamedTuple):
    """One of Prometheus's formats: there are ten, with the ways to escape names.

    Attributes:
        encode: makes a text of metrics.
    """

    encode: Callable[..., bytes]
    content_type: str


MakeText = Callable[[Format], Awaitable[bytes]]
"""Reads the metrics and returns them as text."""


def format_of(accept: str) -> Format:
    """Return the format that a client takes by the header Accept; a version that no format has is left out."""
    return Format(*choose_encoder(_VERSION.sub("", accept)))


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

    async def answer(self, wanted: Format) -> Response:
        """Return an answer with the text in a format."""
        begun_before = self._begun
        self._waiting += 1
        try:
            async with self._making:
                number, body = self._made.get(wanted.content_type, (0, b""))
                if number <= begun_before:
                    self._begun = number = self._begun + 1
                    body = await self._make(wanted)
                    self._made[wanted.content_type] = number, body
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._made.clear()
        return Response(body, headers={"Content-Type": wanted.content_type, "Cache-Control": "no-store"})
