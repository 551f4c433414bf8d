"""Metrics that many ask for at the same time: made once for all that wait; those of several processes as one text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

_VERSION: Final = re.compile(r";\s*version=(?!(?:0\.0\.1|0\.0\.4|1\.0\.0)\s*(?:[;,]|$))[^;,]*")
"""A version that no format has. The client library repeats one above 1.0.0 as that of its answer, so that each request
could have a format, and so a text, of its own; and fails by one that is no number."""
_END: Final = "# EOF"
"""The last line of OpenMetrics."""
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(\{)?")
_OF_A_BROKER: Final = re.compile(r'[{,]broker="')


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


def joined_metrics(texts: Mapping[str, str]) -> str:
    """Return the metrics of all processes, each family once.

    Args:
        texts: the metrics of each process, by its name, all in one of Prometheus's formats. A sample that has no label
            ``broker`` is of the process, and gets its name as the label ``process``.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}  # the comments of a family, and its samples
    is_open = False
    for process, text in texts.items():
        head, samples = families.setdefault("", ([], []))
        for line in text.splitlines():
            if line == _END:
                is_open = True
            elif line.startswith("#"):
                family = line.split(" ", 3)[2]
                head, samples = families.setdefault(family, ([], []))
                if line.split(" ", 2)[1] not in [comment.split(" ", 2)[1] for comment in head]:
                    head.append(line)
            elif line:
                samples.append(_labelled(line, process))
    lines = [line for head, samples in families.values() if samples for line in (*head, *samples)]
    return "\n".join([*lines, *([_END] if is_open else []), ""])


def _labelled(sample: str, process: str) -> str:
    if _OF_A_BROKER.search(sample):
        return sample
    found = _SAMPLE.match(sample)
    assert found is not None, sample
    name, brace = found.groups()
    rest = sample[found.end() :]
    return f'{name}{{process="{process}",{rest}' if brace else f'{name}{{process="{process}"}}{rest}'
