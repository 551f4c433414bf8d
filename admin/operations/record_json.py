"""A record as a JSON object: what operations take and give, and a line of a file that `purgatorio cluster` imports.

``{"key": "17", "value": "paid", "headers": [{"name": "trace", "value": "9f"}], "timestamp_ms": 0, "partition": 2}``

Every field may be left out. Bytes that are no UTF-8 text are base64 in ``key_base64``, ``value_base64`` and a header's
``value_base64``. A value that is neither text nor null is written as compact JSON: ``"value": {"id": 17}``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from purgatorio.protocol.record import Record

MAX_TIMESTAMP_MS: Final = 2**63 - 1
MAX_HEADERS: Final = 10_000
_FIELDS: Final = ("key", "key_base64", "value", "value_base64", "headers", "timestamp_ms", "partition")
_HEADER_FIELDS: Final = ("name", "value", "value_base64")

Headers = tuple[tuple[str, bytes | None], ...]


class NotARecord(ValueError):
    """The object cannot be a record; the message says why."""


class JsonRecord(NamedTuple):
    """A record that is to be written.

    Attributes:
        timestamp_ms: None: the time at which it is written.
        partition: None: the one that its key has (`partition_of`).
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object that describes it."""
        placed = {"partition": self.partition, "timestamp_ms": self.timestamp_ms}
        shown = {**_shown_bytes("key", self.key), **_shown_bytes("value", self.value)}
        return {**placed, **shown, "headers": _shown_headers(self.headers)}


def parse_record(given: object) -> JsonRecord:
    """Return the record that a JSON object describes.

    Raises:
        NotARecord: it describes none.
    """
    if not isinstance(given, dict):
        raise NotARecord(f'a record is an object such as {{"value": "paid"}}, not {_kind(given)}')
    _check_names(given, _FIELDS, "a record")
    if isinstance(given.get("key"), dict | list):
        raise NotARecord(f"key is text, a number or null, not {_kind(given['key'])}")
    return JsonRecord(
        _bytes_of(given, "key"),
        _bytes_of(given, "value"),
        _headers(given.get("headers", [])),
        _number(given, "timestamp_ms", MAX_TIMESTAMP_MS),
        _number(given, "partition", 2**31 - 1),
    )


def shown_record(partition: int, record: Record) -> dict[str, Any]:
    """Return a record of a log as a JSON object, with its offset. `parse_record` reads it, but for the offset."""
    shown: dict[str, Any] = {"partition": partition, "offset": record.offset, "timestamp_ms": record.timestamp_ms}
    shown |= {**_shown_bytes("key", record.key), **_shown_bytes("value", record.value)}
    return {**shown, "headers": _shown_headers(record.headers)}


def parse_shown(shown: dict[str, Any]) -> Record:
    """Return the record of `shown_record`."""
    key, value, headers = _bytes_of(shown, "key"), _bytes_of(shown, "value"), _headers(shown["headers"])
    return Record(shown["offset"], shown["timestamp_ms"], key, value, headers)


def partition_of(key: bytes | None, count: int, place: int) -> int:
    """Return the partition of a record: by its key as Kafka's producers choose it; without one, in turn.

    Args:
        count: the number of partitions.
        place: how many records without a key came before it.
    """
    return place % count if key is None else (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Return the hash by which Kafka's producers choose partitions: MurmurHash2 of 32 bits, with Kafka's seed."""
    multiplier, mask, length = 0x5BD1E995, 0xFFFFFFFF, len(data)
    found = 0x9747B28C ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        found = found * multiplier & mask ^ word
    if whole != length:
        found = (found ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return found ^ found >> 15


def _check_names(given: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known and name != "offset":  # what was read may be written again
            raise NotARecord(f"{what} has no {name[:100]!r}, only {', '.join(known)}")


def _bytes_of(given: dict[str, Any], name: str) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    if encoded is None:
        value = given.get(name)
        if value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return _encoded(text, name)
    if given.get(name) is not None:
        raise NotARecord(f"give {name} or {name}_base64, not both")
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise NotARecord(f"{name}_base64 is no base64") from None


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotARecord(f"{name} has half of a surrogate pair, which no UTF-8 has") from None


def _headers(given: object) -> Headers:
    pairs = [{"name": name, "value": value} for name, value in given.items()] if isinstance(given, dict) else given
    if not isinstance(pairs, list) or len(pairs) > MAX_HEADERS:
        raise NotARecord('headers is a list such as [{"name": "trace", "value": "9f"}]')
    found = []
    for each in pairs:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise NotARecord('a header is an object such as {"name": "trace", "value": "9f"}')
        _check_names(each, _HEADER_FIELDS, "a header")
        _encoded(each["name"], "the name of a header")
        found.append((each["name"], _bytes_of(each, "value")))
    return tuple(found)


def _number(given: dict[str, Any], name: str, most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise NotARecord(f"{name} is a whole number from 0 on")
    return value


def _shown_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, str | None]]:
    return [{"name": name, **_shown_bytes("value", value)} for name, value in headers]


def _shown_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")
