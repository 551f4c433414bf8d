"""Long answers: each name once, in steps, up to 24 MiB.

A request of a few bytes can ask for much: it may name a large group, and name it often. So each name is answered once,
as in Kafka's own clients, which look entries up by name. The answer is made in steps, between which the broker does its
other work; the server encodes it in steps as well. Entries that find no room any more are refused, with an error upon
which clients ask for them again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

MAX_ANSWER_BYTES: Final = 24 * 1024 * 1024
"""The memory for the entries of one answer: the one that passes this bound is complete, those behind it are refused."""
PIECE_BYTES: Final = 400
"""About the memory of one message inside an answer, without its texts."""
BYTES_PER_COST: Final = 50
"""How many bytes of an answer are made in a microsecond (see `LongWork`)."""
NUMBER_BYTES: Final = 40
"""The memory of an integer in an array."""
NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The error of entries without room: of those that are for one entry, clients take this one for "ask for it again"."""

_log = get_logger(__name__)

A = TypeVar("A", bound=Hashable)
E = TypeVar("E")

EntryPieces = Generator[int, None, E]
"""Makes one entry of an answer; yields after each piece of it the bytes that the piece takes."""


def answer_each(
    listings: Listings,
    ctx: RequestContext,
    asked: Iterable[A],
    make: Callable[[A], EntryPieces[E]],
    refuse: Callable[[A, ErrorCode], E],
    reply: Callable[[list[E]], None],
) -> None:
    """Answer with one entry for each name in a request, in the order of the request.

    Args:
        asked: the names in the request; a repeated name counts once.
        make: yields the bytes of each piece of an entry, and returns it.
        refuse: makes an entry with an error: NO_ROOM, or UNKNOWN_SERVER_ERROR for all if an entry cannot be made.
        reply: sends the answer with these entries.
    """
    listings.begin(_steps(list(dict.fromkeys(asked)), make, refuse, reply), ctx.session)


def _steps(
    asked: Sequence[A],
    make: Callable[[A], EntryPieces[E]],
    refuse: Callable[[A, ErrorCode], E],
    reply: Callable[[list[E]], None],
) -> Steps:
    entries: list[E] = []
    total_bytes = 0
    try:
        for each in asked:
            total_bytes += PIECE_BYTES
            if total_bytes > MAX_ANSWER_BYTES:
                entries.append(refuse(each, NO_ROOM))
                continue
            pieces = make(each)
            while (size_bytes := _next(pieces, entries)) is not None:
                total_bytes += size_bytes
                yield 1 + size_bytes // BYTES_PER_COST
            yield PIECE_BYTES // BYTES_PER_COST
    except Exception:  # a bug costs the request that met it, and no other
        _log.exception("an answer in steps failed")
        entries = [refuse(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in asked]
    reply(entries)


def _next(pieces: EntryPieces[E], entries: list[E]) -> int | None:
    """Make the next piece of an entry, and return its bytes; None if that was the last, and the entry is added."""
    try:
        return next(pieces)
    except StopIteration as end:
        entries.append(end.value)
        return None
