"""Several requests of one connection, and the answers to those that its handler has parked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Bench


def requests_of(request_of: Callable[..., bytes], count: int, first: int = 1) -> bytes:
    """Return the bytes of so many requests, numbered from `first`."""
    return b"".join(request_of(number) for number in range(first, first + count))


def answer(bench: Bench, index: int = 0) -> None:
    """Answer the parked request at `index`, the oldest one by default."""
    bench.handler.answer(bench.handler.parked.pop(index))
