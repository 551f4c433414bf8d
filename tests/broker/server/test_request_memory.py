"""The bound on the request bytes of all connections."""

from __future__ import annotations

from purgatorio.broker.server.request_queue import SMALL_REQUEST_BYTES, RequestMemory


class _Reader:
    def __init__(self) -> None:
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1


def test_a_reader_may_read_while_there_is_room() -> None:
    """Below the limit no reader waits."""
    memory, reader = RequestMemory(100), _Reader()
    memory.received(reader, partial_bytes=0, complete_bytes=99)
    assert memory.may_read(reader, partial_bytes=0)
    assert memory.waiting == 0


def test_readers_wait_while_complete_requests_fill_the_memory_and_are_all_woken_by_a_release() -> None:
    """Answering makes room."""
    memory, readers = RequestMemory(100), [_Reader(), _Reader()]
    memory.received(readers[0], partial_bytes=10, complete_bytes=100)
    assert not any(memory.may_read(reader, partial_bytes=0) for reader in readers)
    memory.release(5)
    assert [reader.wakes for reader in readers] == [0, 0]
    memory.release(95)
    assert [reader.wakes for reader in readers] == [1, 1]
    assert all(memory.may_read(reader, partial_bytes=1) for reader in readers)


def test_one_reader_overdraws_when_incomplete_requests_fill_the_memory() -> None:
    """Otherwise they would wait for each other for ever."""
    memory, first, second = RequestMemory(100), _Reader(), _Reader()
    memory.received(first, partial_bytes=60, complete_bytes=0)
    memory.received(second, partial_bytes=60, complete_bytes=0)
    assert memory.may_read(first, partial_bytes=1)
    assert not memory.may_read(second, partial_bytes=1)
    assert memory.may_read(first, partial_bytes=1), "it still overdraws"


def test_the_overdraft_passes_on_when_the_request_is_complete() -> None:
    """In the order of waiting, and past those that hold no incomplete request."""
    memory, first, idle, second = RequestMemory(100), _Reader(), _Reader(), _Reader()
    memory.received(first, partial_bytes=60, complete_bytes=0)
    memory.received(second, partial_bytes=60, complete_bytes=0)
    assert memory.may_read(first, partial_bytes=1)
    assert not memory.may_read(idle, partial_bytes=0)
    assert not memory.may_read(second, partial_bytes=1)
    memory.received(first, partial_bytes=-60, complete_bytes=80)
    assert (idle.wakes, second.wakes) == (0, 1)
    assert memory.may_read(second, partial_bytes=1)
    assert not memory.may_read(first, partial_bytes=0)


def test_the_overdraft_passes_on_when_its_reader_is_gone() -> None:
    """A client that sends half a request and disappears holds no other up."""
    memory, first, second = RequestMemory(100), _Reader(), _Reader()
    memory.received(first, partial_bytes=10, complete_bytes=0)
    memory.received(second, partial_bytes=100, complete_bytes=0)
    assert memory.may_read(first, partial_bytes=1)
    assert not memory.may_read(second, partial_bytes=1)
    memory.leave(first, partial_bytes=10, complete_bytes=0)
    assert second.wakes == 1
    assert memory.may_read(second, partial_bytes=1)


def test_nobody_overdraws_while_complete_requests_fill_the_memory() -> None:
    """They are being worked on, and will make room."""
    memory, reader = RequestMemory(100), _Reader()
    memory.received(reader, partial_bytes=1, complete_bytes=100)
    assert not memory.may_read(reader, partial_bytes=1)


def test_a_reader_that_is_gone_is_not_woken() -> None:
    """And its bytes are free."""
    memory, gone, other = RequestMemory(100), _Reader(), _Reader()
    memory.received(gone, partial_bytes=0, complete_bytes=100)
    assert not memory.may_read(gone, partial_bytes=0)
    assert not memory.may_read(other, partial_bytes=0)
    memory.leave(gone, partial_bytes=0, complete_bytes=100)
    assert (gone.wakes, other.wakes) == (0, 1)
    assert memory.used_bytes == 0


MIB = 1024 * 1024


def half_sent(memory: RequestMemory, count: int, size_bytes: int) -> list[_Reader]:
    """Readers that send so much of a large request, as far as they may, and stop."""
    readers = [_Reader() for _ in range(count)]
    for reader in readers:
        if memory.may_read(reader, partial_bytes=0):
            memory.received(reader, partial_bytes=SMALL_REQUEST_BYTES + 1, complete_bytes=0)
            if memory.may_read(reader, partial_bytes=SMALL_REQUEST_BYTES + 1):
                memory.received(reader, partial_bytes=size_bytes - SMALL_REQUEST_BYTES - 1, complete_bytes=0)
    return readers


def test_half_sent_large_requests_make_no_small_request_wait() -> None:
    """Forty of 2 MiB stalled all other clients for 29 s, where 64 MiB were allowed."""
    memory, small = RequestMemory(64 * MIB), _Reader()
    half_sent(memory, 40, 2 * MIB - 1)
    assert memory.may_read(small, partial_bytes=0)
    memory.received(small, partial_bytes=SMALL_REQUEST_BYTES, complete_bytes=0)
    assert memory.may_read(small, partial_bytes=SMALL_REQUEST_BYTES)


def test_the_reader_that_overdraws_makes_no_small_request_wait() -> None:
    """However much it reads: that is counted apart."""
    memory, small = RequestMemory(64 * MIB), _Reader()
    readers = half_sent(memory, 40, 2 * MIB - 1)
    overdrawer = next(reader for reader in readers if memory.may_read(reader, partial_bytes=2 * MIB))
    memory.received(overdrawer, partial_bytes=90 * MIB, complete_bytes=0)
    assert memory.may_read(small, partial_bytes=0)


def test_large_requests_wait_and_go_on_when_there_is_room_for_them() -> None:
    memory, large, later = RequestMemory(100 * MIB), _Reader(), _Reader()
    memory.received(large, partial_bytes=0, complete_bytes=80 * MIB)
    first = _Reader()
    assert memory.may_read(first, partial_bytes=MIB), "one overdraws"
    assert not memory.may_read(later, partial_bytes=MIB)
    memory.release(10 * MIB)
    assert later.wakes == 1
    assert memory.may_read(later, partial_bytes=MIB)


def test_small_requests_overdraw_before_large_ones() -> None:
    """They are complete soon, and make room."""
    memory, holder, large, small = RequestMemory(100 * MIB), _Reader(), _Reader(), _Reader()
    memory.received(holder, partial_bytes=99 * MIB, complete_bytes=2 * MIB)
    assert memory.may_read(holder, partial_bytes=99 * MIB)
    assert not memory.may_read(large, partial_bytes=MIB)
    assert not memory.may_read(small, partial_bytes=1)
    memory.received(holder, partial_bytes=-1, complete_bytes=1)
    assert (large.wakes, small.wakes) == (0, 1)
