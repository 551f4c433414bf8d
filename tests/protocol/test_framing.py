"""A frame decoder gives the same frames however the stream is split."""

from __future__ import annotations

import random
import time

import pytest

from purgatorio.protocol.errors import FrameError, FrameTooLarge, NegativeFrameSize, TlsOnPlainListener
from purgatorio.protocol.framing import (
    COPY_UP_TO_BYTES,
    GATHERED_ABOVE_BYTES,
    GATHERED_FROM_BYTES,
    GROWTH,
    SIZE_BYTES,
    FrameDecoder,
)
from tests.histories import seeds

LIMIT = 100_000
CHUNK_BYTES = 256_000
"""The most that uvloop reads at once."""


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4) + frame


class Memory:
    """Gives memory for large frames, larger than they need, and remembers the sizes that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def gather(self, size_bytes: int) -> memoryview:
        self.asked.append(size_bytes)
        return memoryview(bytearray(b"\xff" * (size_bytes + 100)))


def in_chunks(stream: bytes, *sizes: int) -> list[bytes]:
    """Cut a stream into chunks of these sizes, and the rest into one."""
    chunks, position = [], 0
    for size in sizes:
        chunks.append(stream[position : position + size])
        position += size
    return [*chunks, stream[position:]]


def feed_all(decoder: FrameDecoder, *parts: bytes) -> None:
    for part in parts:
        decoder.feed(part)


@pytest.mark.parametrize("seed", seeds(50, quick=3))
def test_any_split_of_a_stream_gives_the_same_frames(seed: int) -> None:
    rng = random.Random(seed)
    sizes = (0, 1, 3, 4, 5, COPY_UP_TO_BYTES, COPY_UP_TO_BYTES + 1, 5000)
    frames = [rng.randbytes(rng.choice(sizes)) for _ in range(20)]
    stream = b"".join(map(framed, frames))
    decoder, found, position = FrameDecoder(LIMIT), [], 0
    while position < len(stream):
        size = rng.choice((1, 2, 3, 4, 7, 100, 3000, 20_000))
        found += [bytes(frame) for frame in decoder.feed(stream[position : position + size])]
        position += size
    assert found == frames
    assert decoder.pending_bytes == 0


@pytest.mark.parametrize("seed", seeds(50, quick=3))
def test_any_split_of_a_stream_of_large_frames_gives_the_same_frames(seed: int) -> None:
    """Nor do small ones between them matter, nor what held bytes are said to be meanwhile."""
    rng = random.Random(seed)
    above, start = GATHERED_ABOVE_BYTES, GATHERED_FROM_BYTES
    sizes = (0, 3, 2000, start, above, above + 1, 3 * above, 10 * above)
    frames = [rng.randbytes(rng.choice(sizes)) for _ in range(12)]
    stream = b"".join(map(framed, frames))
    memory = Memory()
    decoder, found, position = FrameDecoder(10 * above, memory.gather), [], 0
    while position < len(stream):
        size = rng.choice((1, 3, 4, 7, start - 1, start, start + 1, start + SIZE_BYTES, above, CHUNK_BYTES))
        found += [bytes(frame) for frame in decoder.feed(stream[position : position + size])]
        position += size
        assert decoder.pending_bytes <= decoder.held_bytes <= GROWTH * decoder.pending_bytes + 100
        ended = sum(len(frame) + SIZE_BYTES for frame in found)
        assert decoder.pending_bytes == min(position, len(stream)) - ended
    assert found == frames
    assert decoder.pending_bytes == decoder.held_bytes == 0


def test_a_large_frame_lies_in_memory_that_was_given_for_it() -> None:
    memory = Memory()
    decoder = FrameDecoder(2**31 - 1, memory.gather)
    stream = framed(bytes(1_000_000))
    *_, (frame,) = [decoder.feed(each) for each in in_chunks(stream, CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES)]
    assert memory.asked == [1_000_000], "its first chunk is large enough, so that its bytes are copied once"
    assert (len(frame), len(frame.obj)) == (1_000_000, 1_000_100)


def test_memory_for_a_large_frame_follows_the_bytes_that_came() -> None:
    memory = Memory()
    decoder = FrameDecoder(2**31 - 1, memory.gather)
    stream = framed(bytes(100 * 1024 * 1024))
    assert decoder.feed(stream[:GATHERED_FROM_BYTES]) == []
    assert (memory.asked, decoder.held_bytes) == ([], GATHERED_FROM_BYTES)
    decoder.feed(stream[GATHERED_FROM_BYTES:100_000])
    asked_bytes = GROWTH * (100_000 - SIZE_BYTES)
    assert (memory.asked, decoder.pending_bytes) == ([asked_bytes], 100_000)
    assert decoder.held_bytes == asked_bytes + 100 + SIZE_BYTES
    decoder.feed(stream[100_000:390_000])
    assert memory.asked == [asked_bytes], "there was room"
    decoder.feed(stream[390_000:500_000])
    assert memory.asked == [asked_bytes, GROWTH * (500_000 - SIZE_BYTES)]


def test_a_large_frame_that_lies_whole_in_a_chunk_needs_no_memory() -> None:
    memory = Memory()
    decoder = FrameDecoder(2**31 - 1, memory.gather)
    assert [len(frame) for frame in decoder.feed(framed(bytes(200_000)) + b"\0")] == [200_000]
    assert memory.asked == []


def test_a_partial_frame_holds_only_the_bytes_that_arrived() -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(b"\0\0") == []
    assert decoder.pending_bytes == 2
    assert decoder.feed(b"\x03\xe8" + b"x" * 10) == []
    assert decoder.pending_bytes == 14


@pytest.mark.parametrize("split", [0, 1, 3, 4])
def test_a_frame_above_the_limit_is_refused_by_its_size_alone(split: int) -> None:
    decoder = FrameDecoder(LIMIT)
    data = (LIMIT + 1).to_bytes(4) + b"x"
    with pytest.raises(FrameTooLarge) as refused:
        feed_all(decoder, data[:split], data[split:])
    assert (refused.value.size_bytes, refused.value.max_frame_bytes) == (LIMIT + 1, LIMIT)
    assert decoder.pending_bytes < 10


def test_a_negative_size_is_refused_and_the_frames_before_it_are_kept() -> None:
    with pytest.raises(NegativeFrameSize) as refused:
        FrameDecoder(LIMIT).feed(framed(b"one") + framed(b"two") + b"\xff\xff\xff\xff")
    assert [bytes(frame) for frame in refused.value.frames] == [b"one", b"two"]
    assert isinstance(refused.value, FrameError)


@pytest.mark.parametrize("split", [1, 4, 5])
def test_kafka_4090_a_tls_client_is_recognised(split: int) -> None:
    hello = bytes.fromhex("160301020001000001fc0303")
    decoder = FrameDecoder(2**31 - 1)
    with pytest.raises(TlsOnPlainListener):
        feed_all(decoder, hello[:split], hello[split:])


def test_tls_bytes_later_in_the_stream_are_an_ordinary_size() -> None:
    decoder = FrameDecoder(2**31 - 1)
    decoder.feed(framed(b"first"))
    assert decoder.feed(bytes.fromhex("16030102")) == []


def test_a_large_frame_in_many_chunks_costs_no_more_than_its_size() -> None:
    def seconds(chunks: int) -> float:
        decoder, chunk = FrameDecoder(2**31 - 1), bytes(1000)
        decoder.feed((chunks * 1000).to_bytes(4))
        started = time.process_time()
        for _ in range(chunks):
            frames = decoder.feed(chunk)
        assert len(frames) == 1
        return time.process_time() - started

    assert min(seconds(20_000) for _ in range(3)) < 40 * max(1e-4, min(seconds(2_000) for _ in range(3)))
