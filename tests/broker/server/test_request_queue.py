"""From bytes to waiting requests, and the memory that they take from all connections."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.arena import Arena
from purgatorio.broker.server.request_queue import MAX_AHEAD, MAX_AHEAD_BYTES, RequestMemory, RequestQueue
from purgatorio.protocol.errors import FrameTooLarge

REQUEST = b"\0\0\0\x05hello"


class _Reader:
    """A connection, as far as memory is concerned."""

    def __init__(self) -> None:
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1


def test_bytes_become_requests_wherever_they_are_cut() -> None:
    """The queue says of each chunk whether it completed requests."""
    queue, reader = RequestQueue(RequestMemory(1_000), 100), _Reader()
    assert not queue.feed(REQUEST[:3], reader)
    assert (queue.partial_bytes, queue.complete_bytes) == (3, 0)
    assert queue.feed(REQUEST[3:] + REQUEST + REQUEST[:6], reader)
    assert (queue.partial_bytes, queue.complete_bytes) == (6, 2 * len(REQUEST))
    assert not queue.feed(REQUEST[6:8], reader)
    assert queue.feed(REQUEST[8:], reader)
    assert [bytes(frame) for frame in queue.waiting] == [b"hello"] * 3


def test_it_may_take_more_while_few_and_small_requests_wait() -> None:
    queue, reader = RequestQueue(RequestMemory(1_000_000), MAX_AHEAD_BYTES), _Reader()
    queue.feed(REQUEST * (MAX_AHEAD - 1), reader)
    assert queue.may_take_more()
    queue.feed(REQUEST, reader)
    assert not queue.may_take_more()
    queue = RequestQueue(RequestMemory(1_000_000), MAX_AHEAD_BYTES)
    queue.feed(MAX_AHEAD_BYTES.to_bytes(4, "big") + bytes(MAX_AHEAD_BYTES), reader)
    assert not queue.may_take_more(), "four bytes too many"


def test_a_request_holds_memory_until_it_is_released() -> None:
    """Starting it gives nothing back; being answered does."""
    memory = RequestMemory(1_000)
    queue, reader = RequestQueue(memory, 100), _Reader()
    queue.feed(REQUEST + REQUEST[:2], reader)
    queue.waiting.popleft()
    assert (memory.complete_bytes, memory.partial_bytes) == (len(REQUEST), 2)
    queue.release(len(REQUEST))
    assert (memory.complete_bytes, memory.partial_bytes) == (0, 2)


def test_dropping_what_waits_gives_back_that_and_no_more() -> None:
    """A started request keeps its memory."""
    memory = RequestMemory(1_000)
    queue, reader = RequestQueue(memory, 100), _Reader()
    queue.feed(REQUEST * 3, reader)
    queue.waiting.popleft()
    queue.drop_waiting()
    assert (len(queue.waiting), memory.used_bytes, queue.complete_bytes) == (0, len(REQUEST), len(REQUEST))


def test_leaving_gives_everything_back_and_wakes_the_others() -> None:
    """Started, waiting and incomplete requests alike."""
    memory = RequestMemory(20)
    queue, reader = RequestQueue(memory, 100), _Reader()
    waiting = _Reader()
    queue.feed(REQUEST * 2 + REQUEST[:5], reader)
    queue.waiting.popleft()
    assert not memory.may_read(waiting, partial_bytes=0)
    queue.leave(reader)
    assert (memory.used_bytes, queue.partial_bytes, queue.complete_bytes, waiting.wakes) == (0, 0, 0, 1)


def test_a_large_request_lies_in_the_arena_until_nothing_refers_to_it() -> None:
    """And what the arena gives for it counts, not what has come of it."""
    arena = Arena()
    memory = RequestMemory(10_000_000, arena.gather)
    queue, reader = RequestQueue(memory, 10_000_000), _Reader()
    data = (1_000_000).to_bytes(4) + bytes(1_000_000)
    assert not queue.feed(data[:100_000], reader)
    assert (queue.arrived_bytes, queue.partial_bytes) == (100_000, 4 + arena.taken_bytes)
    assert memory.partial_bytes == queue.partial_bytes > 390_000
    assert not queue.feed(data[100_000:800_000], reader)
    assert queue.feed(data[800_000:], reader)
    assert (memory.partial_bytes, memory.complete_bytes) == (0, len(data))
    part = queue.waiting.popleft()[500_000:500_001]
    assert arena.taken_bytes >= 1_000_000
    del part
    assert arena.taken_bytes == 0


def test_leaving_gives_back_the_memory_of_a_large_request() -> None:
    arena = Arena()
    memory = RequestMemory(10_000_000, arena.gather)
    queue, reader = RequestQueue(memory, 10_000_000), _Reader()
    queue.feed((1_000_000).to_bytes(4) + bytes(200_000), reader)
    queue.leave(reader)
    assert (memory.used_bytes, queue.arrived_bytes, arena.taken_bytes) == (0, 0, 0)


def test_a_request_beyond_the_limit_is_an_error() -> None:
    """The connection closes."""
    queue = RequestQueue(RequestMemory(1_000), 4)
    with pytest.raises(FrameTooLarge):
        queue.feed(REQUEST, _Reader())
