"""Hostile requests, made from the declarations of messages: many elements, each of as few bytes as possible."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from purgatorio.protocol.api import APIS, ApiKey, encode_request
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.message import ArrayType, Fixed, StringType, StructType, WireField, fields_of
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

START_MS = 1_700_000_000_000

Path = tuple[str, ...]
"""The names of nested arrays, from the outermost to the one that is wide."""


class HostileRequest(NamedTuple):
    """A frame without its size, and what it is."""

    title: str
    frame: bytes


def hostile_requests(wanted: int | None, *, distinct: bool, versions: str = "ends") -> Iterator[HostileRequest]:
    """Requests of all APIs that have one array of `count` elements, or tagged fields in that number.

    Args:
        wanted: how many elements; None: one more than the API allows.
        distinct: whether the elements differ, so that nothing is done once for all of them.
        versions: "ends" for the lowest and highest version of each API, "all" for all.
    """
    for key in APIS:
        yield from hostile_requests_of(key, wanted, distinct=distinct, versions=versions)


def hostile_requests_of(
    key: int, wanted: int | None, *, distinct: bool, versions: str = "ends"
) -> Iterator[HostileRequest]:
    """Return the hostile requests of one API; see `hostile_requests`."""
    api = APIS[ApiKey(key)]
    count = api.max_elements + 1 if wanted is None else wanted
    chosen = api.versions if versions == "all" else sorted({api.versions[0], api.versions[-1]})
    for version in chosen:
        for path in wide_paths(api.request, version):
            request = _Maker(version, count, distinct).message(api.request, path)
            title = f"{ApiKey(key).name} v{version} {'.'.join(path)} × {count}{' distinct' * distinct}"
            yield HostileRequest(title, b"".join(encode_request(key, version, 7, "x", request))[4:])


def hostile_produce_requests(topic: str, partitions: int) -> Iterator[HostileRequest]:
    """Return requests that append the same batch to many partitions; the batch costs as much as it can.

    Bombs unpack to almost 8 MiB each. There are as many small records as fit, of all sizes, so that no two neighbours
    are alike.
    """
    text = bytes(range(200)) * (8 * 1024 * 1024 // 200)
    for key in (b"k", None):
        for codec in Compression:
            if codec is not Compression.NONE:
                for name, value in (("text", text), ("zeros", bytes(len(text)))):
                    batch = build_batch([Record(0, START_MS, key, value)], compression=codec)
                    yield _produce(f"{codec.name} bombs of {name}, key {key!r}", topic, partitions, batch)
        for name, value in (("words", _words(1_048_000)), ("noise", random.Random(1).randbytes(1_048_000))):
            yield _produce(f"{name}, key {key!r}", topic, partitions, build_batch([Record(0, START_MS, key, value)]))
        small = [Record(number, START_MS, key, b"v" * (number % 5)) for number in range(30_000)]
        headers = [Record(number, START_MS, key, b"", (("", b"v" * (number % 3)),)) for number in range(10_000)]
        for name, records in (("small records", small), ("headers", headers)):
            yield _produce(f"{name}, key {key!r}", topic, partitions, build_batch(records))


def _words(size_bytes: int) -> bytes:
    """Return text that takes gzip as long as any."""
    rng = random.Random(1)
    words = [rng.randbytes(4).hex() for _ in range(2_000)]
    lines = (f'{{"id":{nth},"user":{rng.getrandbits(30)},"note":"{rng.choice(words)}"}}' for nth in itertools.count())
    return "".join(itertools.islice(lines, size_bytes // 30)).encode()[:size_bytes]


def _produce(title: str, topic: str, partitions: int, batch: bytes) -> HostileRequest:
    data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return HostileRequest(title, b"".join(encode_request(ApiKey.PRODUCE, 9, 7, "x", request))[4:])


def wide_paths(cls: type, version: int) -> Iterator[Path]:
    """Return the paths to all arrays of a message."""
    for field in fields_of(cls):
        if field.is_in(version) and isinstance(field.wire.type, ArrayType):
            yield (field.name,)
            element = field.wire.type.element
            if isinstance(element, StructType):
                yield from ((field.name, *path) for path in wide_paths(element.cls, version))


class _Maker:
    def __init__(self, version: int, count: int, distinct: bool) -> None:
        self._version = version
        self._count = count
        self._distinct = distinct
        self._numbers = itertools.count(1)

    def message(self, cls: type, path: Path) -> Any:
        """Return a message whose array at `path` is wide; arrays on the way have one element, others none."""
        values = {field.name: self._field(field, path) for field in fields_of(cls) if field.is_in(self._version)}
        return cls(**{name: value for name, value in values.items() if value is not None})  # others have defaults

    def _field(self, field: WireField, path: Path) -> Any:
        wire_type = field.wire.type
        if isinstance(wire_type, Fixed) and field.name not in ("partition", "index", "partition_index"):
            return None
        if not isinstance(wire_type, ArrayType):
            return self._value(wire_type)
        if not path or field.name != path[0]:
            return []
        inner = path[1:]
        return [self._element(wire_type.element, inner) for _ in range(1 if inner else self._count)]

    def _element(self, wire_type: Any, path: Path) -> Any:
        return self.message(wire_type.cls, path) if isinstance(wire_type, StructType) else self._value(wire_type)

    def _value(self, wire_type: Any) -> Any:
        number = next(self._numbers) if self._distinct else 0
        match wire_type:
            case StringType():
                return f"{number:x}" if self._distinct else ""
            case Fixed(code="16s"):
                return number.to_bytes(16)
            case Fixed(code=code):
                return number % 128 if code == "b" else number
            case StructType():
                return self.message(wire_type.cls, ())
        return None
