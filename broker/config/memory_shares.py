"""The shares of logs, requests and answers in the memory of a broker.

`memory.bytes` is what a broker may take of the system. Each kind has a fixed share of it, so that none needs to know
how much the others have: logs fill theirs and stay full, requests and answers come and go.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MIB: Final = 1024 * 1024
MEMORY_BYTES: Final = 768 * MIB
"""The memory of a broker on a machine whose own is unknown."""
MAX_REQUESTS_BYTES: Final = 512 * MIB
MAX_ANSWERS_BYTES: Final = 256 * MIB
MAX_REQUEST_BYTES: Final = 100 * MIB
"""Kafka's default for the largest request (socket.request.max.bytes)."""
MIN_REQUEST_BYTES: Final = 16 * MIB


class MemoryShares(NamedTuple):
    """The largest sizes, in bytes, for a broker with so much memory.

    Attributes:
        logs: of its logs (log.memory.bytes).
        requests: of the requests that it receives or works on (queued.max.request.bytes).
        answers: of the answers that clients have not taken.
        largest_request: of one request (socket.request.max.bytes), which may exceed the share of all.
        fetched: of one answer of a leader to this broker's follower fetch (replica.fetch.response.max.bytes).
    """

    logs: int
    requests: int
    answers: int
    largest_request: int
    fetched: int


def shares_of(memory_bytes: int) -> MemoryShares:
    """Return the shares of a broker's memory: three quarters for logs, an eighth for requests, one for answers."""
    eighth = max(MIB, memory_bytes // 8)
    return MemoryShares(
        logs=max(MIB, memory_bytes * 3 // 4),
        requests=min(eighth, MAX_REQUESTS_BYTES),
        answers=min(eighth, MAX_ANSWERS_BYTES),
        largest_request=min(max(2 * eighth, MIN_REQUEST_BYTES), MAX_REQUEST_BYTES),
        fetched=max(MIB, eighth // 4),
    )


def memory_for(logs_bytes: int) -> int:
    """Return the memory of a broker of which its logs have so much."""
    return -(-logs_bytes * 4 // 3)
