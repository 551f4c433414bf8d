"""A frame decoder gives the same frames however the stream is split."""

from __future__ import annotations

import random
import time

import pytest

from purgatorio.protocol.errors import FrameError, FrameTooLarge, NegativeFrameSize, TlsOnPlainListener
from purgatorio.protocol.framing import COPY_UP_TO_BYTES, FrameDecoder
from tests.histories import seeds

LIMIT = 100_000


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4) + frame


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
