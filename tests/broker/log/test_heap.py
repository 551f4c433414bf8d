"""The heap of the process: what is free of it goes back to the system."""

from __future__ import annotations

import sys

import pytest

from purgatorio.broker.log import heap as module
from purgatorio.broker.log.heap import KEPT_BYTES, Glibc, Heap, heap


class Allocator:
    """An allocator of which nothing goes back by itself."""

    def __init__(self) -> None:
        self.free = 0
        self.times = 0

    def free_bytes(self) -> int:
        return self.free

    def give_back(self) -> None:
        self.times += 1


def test_free_memory_goes_back_once_it_is_much() -> None:
    allocator = Allocator()
    of_process = Heap(allocator)
    allocator.free = KEPT_BYTES
    assert not of_process.trim()
    allocator.free += 1
    assert of_process.trim()
    assert allocator.times == 1


def test_what_has_gone_back_already_counts_no_more() -> None:
    allocator = Allocator()
    of_process = Heap(allocator)
    allocator.free = 10 * KEPT_BYTES
    assert of_process.trim()
    assert not of_process.trim()
    allocator.free = 3 * KEPT_BYTES  # the rest is in use again
    assert not of_process.trim()
    allocator.free = 4 * KEPT_BYTES + 1
    assert of_process.trim()


def test_a_process_without_glibc_has_no_heap_to_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    def without() -> Glibc:
        raise AttributeError("mallinfo2")

    monkeypatch.setattr(module, "Glibc", without)
    assert heap.__wrapped__() is None


@pytest.mark.skipif(sys.platform != "linux" or heap() is None, reason="the allocator is not glibc's")
def test_glibc_tells_what_is_free() -> None:
    allocator = Glibc()
    blocks = [bytearray(10_000) for _ in range(2_000)]
    before_bytes = allocator.free_bytes()
    del blocks[::2]
    assert allocator.free_bytes() - before_bytes > 5_000_000
    allocator.give_back()
