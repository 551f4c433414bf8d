"""Random messages of every API, in every version, from their declarations."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import (
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
CASES = [
    pytest.param(
        api,
        version,
        kind,
        id=f"{ApiKey(api.key).name}-{kind}-{version}",
        marks=() if version == api.versions[-1] else pytest.mark.slow,  # a quick run has the newest version of each
    )
    for api in APIS.values()
    for version in api.versions
    for kind in ("request", "response")
]


class Maker:
    """Makes random messages: extreme values as often as ordinary ones, empty and null ones as often as full ones."""

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
        if name.endswith("error_code"):
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
