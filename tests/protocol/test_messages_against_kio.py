"""Every message in every version against kio, which is generated from Kafka's own message definitions.

What we encode, kio reads as the same values and writes as the same bytes, and we decode as what we began with.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from protocol.api import APIS
from protocol.api_key import ApiKey
from protocol.decoder import compile_decoder
from protocol.encoder import compile_encoder
from protocol.message import (
    Api,
    ArrayType,
    BytesType,
    Fixed,
    RecordsType,
    StringType,
    StructType,
    WireField,
    fields_of,
)

ERROR_CODES = [int(code) for code in KioErrorCode]
ROUNDS = 5
CASES = [
    pytest.param(api, version, kind, id=f"{ApiKey(api.key).name}-{kind}-{version}")
    for api in APIS.values()
    for version in api.versions
    for kind in ("request", "response")
]


class Maker:
    """Makes random messages: extremes as often as ordinary values, empty and null as often as full."""

    def __init__(self, seed: str, version: int) -> None:
        self.rng = random.Random(seed)
        self.version = version

    def message(self, cls: type) -> Any:
        return cls(**{f.name: self.value(f) for f in fields_of(cls) if f.is_in(self.version)})

    def value(self, field: WireField) -> Any:
        rng, wire_type = self.rng, field.wire.type
        if field.is_nullable(self.version) and rng.random() < 0.3:
            return None
        if field.wire.tag is not None and rng.random() < 0.5:
            return field.fresh() if field.fresh is not None else field.default
        if isinstance(wire_type, Fixed):
            return self.number(field.name, wire_type.code)
        return self.sized(field.name, wire_type)

    def sized(self, name: str, wire_type: Any) -> Any:
        match wire_type:
            case StringType():
                return self.rng.choice(["", "orders", "ä€𝄞", "x" * 130])
            case BytesType() | RecordsType():
                return self.rng.randbytes(self.rng.choice([0, 1, 126, 127, 128, 3000]))
            case StructType():
                return self.message(wire_type.cls)
            case ArrayType(element=Fixed(code=code)):
                return [self.number(name, code) for _ in range(self.rng.choice([0, 1, 3]))]
            case ArrayType():
                return [self.sized(name, wire_type.element) for _ in range(self.rng.choice([0, 1, 2]))]
        raise AssertionError(wire_type)

    def number(self, name: str, code: str) -> Any:
        rng = self.rng
        if name == "error_code":
            return rng.choice(ERROR_CODES)
        if code == "16s":
            return rng.choice([bytes(16), rng.randbytes(16)])
        if code == "?":
            return rng.random() < 0.5
        if code == "d":
            return rng.random()
        if name.endswith("_ms"):
            return rng.choice([0, 1, 30_000, 2**31 - 1])
        bits = {"b": 8, "h": 16, "i": 32, "q": 64}[code.lower()]
        if code.isupper():
            return rng.choice([0, 2**bits - 1])
        return rng.choice([0, 1, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, rng.randrange(100)])


def same(ours: Any, theirs: Any) -> bool:
    """Whether a value of ours and one of kio's mean the same."""
    match theirs:
        case datetime.timedelta():
            return bool(ours == theirs // datetime.timedelta(milliseconds=1))
        case datetime.datetime():
            return bool(ours == round(theirs.timestamp() * 1000))
        case uuid.UUID():
            return bool(ours == theirs.bytes)
        case tuple():
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case None:
            return ours is None or ours == bytes(16) or ours == -1
    if dataclasses.is_dataclass(theirs):
        mine = {f.name: getattr(ours, f.name) for f in fields_of(type(ours))}
        return all(same(named(mine, f.name), getattr(theirs, f.name)) for f in dataclasses.fields(theirs))
    return bool(ours == theirs)


def named(mine: dict[str, Any], name: str) -> Any:
    """Our field of kio's name; kio leaves the unit off where it gives the value a type of time."""
    return mine[name] if name in mine else mine[f"{name}_ms"]


def kio_type(api: Api, version: int, kind: str) -> Any:
    module = importlib.import_module(f"kio.schema.{ApiKey(api.key).name.lower()}.v{version}.{kind}")
    return getattr(module, (api.request if kind == "request" else api.response).__name__)


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_kio_reads_and_writes_the_same(api: Api, version: int, kind: str) -> None:
    cls = api.request if kind == "request" else api.response
    flexible = version >= api.flexible_from
    encode, decode = compile_encoder(cls, version, flexible), compile_decoder(cls, version, flexible)
    theirs_type = kio_type(api, version, kind)
    read: Callable[..., Any] = entity_reader(theirs_type)
    write: Callable[..., Any] = entity_writer(theirs_type)
    for number in range(ROUNDS):
        ours = Maker(f"{cls.__name__} {version} {number}", version).message(cls)
        data = b"".join(encode(ours))
        theirs, size_bytes = read(data, 0)
        assert size_bytes == len(data)
        assert same(ours, theirs), (ours, theirs)
        assert written(write, theirs) == data
        assert decode(data) == ours


def written(write: Callable[..., Any], entity: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, entity)
    return buffer.getvalue()
