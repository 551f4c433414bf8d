"""The bound on the request bytes of all connections."""

from __future__ import annotations

from purgatorio.broker.server.request_memory import RequestMemory


class _Reader:
    def __init__(self) -> None:
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1


def test_a_reader_may_read_while_there_is_room() -> None:
    """Below the limit no reader waits."""
    memory, reader = RequestMemory(100), _Reader()
    memory.received(reader, partial_bytes=0, complete_bytes=99)
    assert memory.may_read(reader, has_partial=False)
    assert memory.waiting == 0


def test_readers_wait_while_complete_requests_fill_the_memory_and_are_all_woken_by_a_release() -> None:
    """Answering makes room."""
    memory, readers = RequestMemory(100), [_Reader(), _Reader()]
    memory.received(readers[0], partial_bytes=10, complete_bytes=100)
    assert not any(memory.may_read(reader, has_partial=False) for reader in readers)
    memory.release(5)
    assert [reader.wakes for reader in readers] == [0, 0]
    memory.release(95)
    assert [reader.wakes for reader in readers] == [1, 1]
    assert all(memory.may_read(reader, has_partial=True) for reader in readers)


def test_one_reader_overdraws_when_incomplete_requests_fill_the_memory() -> None:
    """Otherwise they would wait for each other for ever."""
    memory, first, second = RequestMemory(100), _Reader(), _Reader()
    memory.received(first, partial_bytes=60, complete_bytes=0)
    memory.received(second, partial_bytes=60, complete_bytes=0)
    assert memory.may_read(first, has_partial=True)
    assert not memory.may_read(second, has_partial=True)
    assert memory.may_read(first, has_partial=True), "it still overdraws"


def test_the_overdraft_passes_on_when_the_request_is_complete() -> None:
    """In the order of waiting, and past those that hold no incomplete request."""
    memory, first, idle, second = RequestMemory(100), _Reader(), _Reader(), _Reader()
    memory.received(first, partial_bytes=60, complete_bytes=0)
    memory.received(second, partial_bytes=60, complete_bytes=0)
    assert memory.may_read(first, has_partial=True)
    assert not memory.may_read(idle, has_partial=False)
    assert not memory.may_read(second, has_partial=True)
    memory.received(first, partial_bytes=-60, complete_bytes=80)
    assert (idle.wakes, second.wakes) == (0, 1)
    assert memory.may_read(second, has_partial=True)
    assert not memory.may_read(first, has_partial=False)


def test_the_overdraft_passes_on_when_its_reader_is_gone() -> None:
    """A client that sends half a request and disappears holds no other up."""
    memory, first, second = RequestMemory(100), _Reader(), _Reader()
    memory.received(first, partial_bytes=10, complete_bytes=0)
    memory.received(second, partial_bytes=100, complete_bytes=0)
    assert memory.may_read(first, has_partial=True)
    assert not memory.may_read(second, has_partial=True)
    memory.leave(first, partial_bytes=10, complete_bytes=0)
    assert second.wakes == 1
    assert memory.may_read(second, has_partial=True)


def test_nobody_overdraws_while_complete_requests_fill_the_memory() -> None:
    """They are being worked on, and will make room."""
    memory, reader = RequestMemory(100), _Reader()
    memory.received(reader, partial_bytes=1, complete_bytes=100)
    assert not memory.may_read(reader, has_partial=True)


def test_a_reader_that_is_gone_is_not_woken() -> None:
    """And its bytes are free."""
    memory, gone, other = RequestMemory(100), _Reader(), _Reader()
    memory.received(gone, partial_bytes=0, complete_bytes=100)
    assert not memory.may_read(gone, has_partial=False)
    assert not memory.may_read(other, has_partial=False)
    memory.leave(gone, partial_bytes=0, complete_bytes=100)
    assert (gone.wakes, other.wakes) == (0, 1)
    assert memory.used_bytes == 0
