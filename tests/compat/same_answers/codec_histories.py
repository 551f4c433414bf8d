"""Histories of odd batches: how they are compressed, what their records say, and what a fetch waits for beside others.

An era is a version; each API is asked in the nearest one that it has.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Final

import cramjam
from fastcrc import crc32

from purgatorio.protocol.compression import Compression, compress
from purgatorio.protocol.record import Record, RecordsEncoder
from purgatorio.protocol.records import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    build_batch,
    seal_batch,
)
from tests.compat.same_answers.log_histories import START_MS, at, batch, fetch, fetch_topic, list_offsets, produce
from tests.compat.same_answers.talk import Talk

DAY_MS: Final = 86_400_000
WAIT_MS: Final = 300
VALUE: Final = b"some value " * 3_000
SKIPPABLE: Final = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
HALVES: Final = [[Record(2 * half + nth, START_MS, b"k", VALUE, ()) for nth in range(2)] for half in range(2)]
XERIAL_HEADER_BYTES: Final = 16


def _encoded(records: list[Record]) -> RecordsEncoder:
    encoder = RecordsEncoder(0, START_MS)
    for record in records:
        encoder.add(record)
    return encoder


ALL: Final = _encoded(HALVES[0] + HALVES[1])
PLAIN: Final = bytes(ALL.body)
FIRST: Final = bytes(_encoded(HALVES[0]).body)
SECOND: Final = PLAIN[len(FIRST) :]


def _sealed(encoder: RecordsEncoder, payload: bytes, codec: Compression) -> bytes:
    return seal_batch(
        encoder,
        payload,
        base_offset=0,
        compression=codec,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        leader_epoch=NO_LEADER_EPOCH,
    )


def _lz4(data: bytes, **options: bool) -> bytes:
    packer = cramjam.lz4.Compressor(**{"content_checksum": False, "block_linked": False, **options})
    packer.compress(data)
    return bytes(packer.finish())


def _payloads() -> dict[str, tuple[Compression, bytes]]:
    """Return payloads of four records, and of as many that are damaged, by what is odd about them."""
    gzip, snappy, lz4, zstd = (compress(codec, PLAIN) for codec in list(Compression)[1:])
    both = {codec: compress(codec, FIRST) + compress(codec, SECOND) for codec in list(Compression)[1:]}
    found: dict[str, tuple[Compression, bytes]] = {}
    for codec, packed in zip(list(Compression)[1:], (gzip, snappy, lz4, zstd), strict=True):
        found[f"{codec.name}"] = codec, packed
        found[f"{codec.name} twice"] = codec, both[codec]
        found[f"{codec.name} cut"] = codec, packed[:-5]
        found[f"{codec.name} and a zero"] = codec, packed + b"\0"
        found[f"{codec.name} and more"] = codec, packed + b"garbage"
        found[f"{codec.name} of nothing"] = codec, b""
    return found | {
        "lz4 linked": (Compression.LZ4, bytes(cramjam.lz4.compress(PLAIN))),
        "lz4 with checksum": (Compression.LZ4, _lz4(PLAIN, content_checksum=True)),
        "lz4 after a frame to skip": (Compression.LZ4, SKIPPABLE + lz4),
        "lz4 without an end": (Compression.LZ4, lz4[:-4]),
        "raw snappy": (Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))),
        "xerial of other versions": (
            Compression.SNAPPY,
            snappy[:8] + b"\0\0\0\x09" * 2 + snappy[XERIAL_HEADER_BYTES:],
        ),
        "xerial and half a header": (Compression.SNAPPY, snappy + snappy[:8]),
        "xerial and an empty stream": (Compression.SNAPPY, snappy + snappy[:XERIAL_HEADER_BYTES]),
        "gzip and a header": (Compression.GZIP, gzip + gzip[:10]),
        "gzip and half a member": (Compression.GZIP, gzip + gzip[: len(gzip) // 2]),
        "gzip of a wrong size": (Compression.GZIP, gzip[:-4] + b"\1\1\1\1"),
        "zstd and frames to skip": (Compression.ZSTD, SKIPPABLE + zstd + SKIPPABLE),
        "half of the records": (Compression.ZSTD, compress(Compression.ZSTD, FIRST)),
    }


def compressed(talk: Talk) -> None:
    """Payloads as odd clients send them, and damaged ones."""
    topic = talk.new_topic("codecs")
    again = talk.new_topic("again", configs={"compression.type": "gzip"})
    for name, (codec, payload) in _payloads().items():
        records = _sealed(ALL, payload, codec)
        talk.ask(name, produce(topic, (0, records)))
        talk.ask(f"{name}, anew", produce(again, (0, records)))
    talk.ask("ends", list_offsets(topic, (0, -1)))
    wrong = _sealed(ALL, _lz4(PLAIN, content_checksum=True)[:-1] + b"\0", Compression.LZ4)
    large = batch(50, value=bytes(500_000), compression=Compression.ZSTD)
    talk.ask("very much", produce(topic, (0, large)))
    talk.ask("very much, anew", produce(again, (0, large)))
    talk.ask("lz4 with a wrong checksum", produce(topic, (0, wrong)))
    zstd = talk.new_topic("zstd")
    talk.ask("one of zstd", produce(zstd, (0, batch(compression=Compression.ZSTD))))
    fetch(talk, "zstd", fetch_topic(talk, zstd, at(0)))


def _with(records: bytes, **fields: int) -> bytes:
    """Return a batch with these fields of its header, and a CRC that is right."""
    changed = bytearray(records)
    if "attributes" in fields:
        changed[22] |= fields["attributes"]
    if "max_timestamp_ms" in fields:
        changed[35:43] = fields["max_timestamp_ms"].to_bytes(8, "big")
    if "codec" in fields:
        changed[22] = changed[22] & ~7 | fields["codec"]
    changed[17:21] = crc32.iscsi(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


def _with_deltas(first: int, second: int) -> bytes:
    """Return a batch of two records with these offset deltas."""
    encoder = _encoded([])
    bodies = []
    for delta in (first, second):
        each = RecordsEncoder(0, START_MS)
        each.add(Record(delta, START_MS, b"k", b"v", ()))
        bodies.append(bytes(each.body))
        encoder.add(Record(len(bodies) - 1, START_MS, b"k", b"v", ()))
    return _sealed(encoder, b"".join(bodies), Compression.NONE)


def odd_records(talk: Talk) -> None:
    """What batches say of times, offsets and codecs."""
    topic = talk.new_topic("odd")
    append = talk.new_topic("append", configs={"message.timestamp.type": "LogAppendTime"})
    lying = talk.new_topic("lying")
    late_ms = round(time.time() * 1000) + DAY_MS
    for codec in (Compression.NONE, Compression.GZIP):
        plain = batch(2, compression=codec)
        for name, records in {
            "time of the broker": _with(plain, attributes=8),
            "late": batch(2, at_ms=late_ms, compression=codec),
            "one is late": build_batch(
                [Record(0, START_MS, None, b"v", ()), Record(1, late_ms, None, b"v", ())], compression=codec
            ),
        }.items():
            talk.ask(f"{name}, {codec.name}", produce(topic, (0, records)))
            talk.ask(f"{name}, {codec.name}, append time", produce(append, (0, records)))
        talk.ask(f"header says late, {codec.name}", produce(lying, (0, _with(plain, max_timestamp_ms=late_ms))))
    talk.ask("unknown codec", produce(topic, (0, _with(batch(), codec=5))))
    for deltas in ((0, 0), (1, 0), (0, 2)):
        talk.ask(f"deltas {deltas}", produce(topic, (0, _with_deltas(*deltas))))


def waits_for_others(talk: Talk) -> None:
    """A fetch of what does not exist, and of what has no records yet: whether it waits is noted."""
    topic = talk.new_topic("waits", 2)
    talk.ask("some", produce(topic, (1, batch())))
    here, there = fetch_topic(talk, topic, at(0)), fetch_topic(talk, "nowhere", at(0, 5))
    records = dataclasses.replace(here, partitions=[at(0), at(0, 1)])
    out = dataclasses.replace(here, partitions=[at(7)])
    unknown = dataclasses.replace(here, partitions=[at(0), at(0, 9)])
    for name, topics in {
        "here": [here],
        "here and nowhere": [here, there],
        "unknown partition": [unknown],
        "nowhere": [there],
        "nowhere and records": [there, records],
        "nowhere and out of range": [there, out],
    }.items():
        began = time.monotonic()
        fetch(talk, name, *topics, max_wait_ms=WAIT_MS)
        talk.fields.append((f"Fetch, {name}: waits", (time.monotonic() - began) * 1000 >= WAIT_MS * 0.9))
    one = fetch_topic(talk, topic, at(0, 1))
    fetch(talk, "negative limit", one, max_bytes=-1)
    fetch(talk, "negative limit of a partition", fetch_topic(talk, topic, at(0, 1, partition_max_bytes=-1)))


HISTORIES = {
    compressed: (7, 9, 12, 13),
    odd_records: (3, 9, 13),
    waits_for_others: (4, 7, 12, 13, 18),
}
"""Each with its eras."""
