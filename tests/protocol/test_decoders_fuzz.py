"""Decoders return a message or raise `DecodeError` for any bytes, in bounded memory."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest

from purgatorio.protocol.api import APIS
from purgatorio.protocol.decoder import compile_decoder
from purgatorio.protocol.encoder import compile_encoder
from purgatorio.protocol.errors import DecodeError
from purgatorio.protocol.message import Api
from purgatorio.protocol.primitives import encode_uvarint
from tests.protocol.random_messages import CASES, Maker

ROUNDS = 40


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change, cut, double or enlarge a few of some valid bytes."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0:
                del changed[at:]
            case 1:
                changed[at : at + 1] = bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF])])
            case 2:
                changed[at:at] = b"\xff\xff\xff\xff\x0f"
            case 3:
                changed[at:at] = rng.randbytes(rng.randrange(8))
            case 4:
                changed[at : at + 4] = b"\x7f\xff\xff\xff"
    return bytes(changed)


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_damaged_messages_are_a_decode_error_or_another_message(api: Api, version: int, kind: str) -> None:
    cls = api.request if kind == "request" else api.response
    flexible = version >= api.flexible_from
    encode, decode = compile_encoder(cls, version, flexible), compile_decoder(cls, version, flexible)
    rng = random.Random(f"{cls.__name__} {version}")
    for number in range(ROUNDS):
        data = b"".join(encode(Maker(f"{cls.__name__} {version} {number}", version).message(cls)))
        for damaged in (mutated(rng, data), rng.randbytes(rng.randrange(64)), data[: rng.randrange(len(data) + 1)]):
            for buffer in (damaged, memoryview(damaged), bytearray(damaged)):
                with contextlib.suppress(DecodeError):
                    decode(buffer)


def test_a_count_that_the_data_cannot_hold_allocates_nothing() -> None:
    bombs = [b"\x7f\xff\xff\xff" * 8, b"\xff\xff\xff\xff\x0f" * 8, b"\x00" * 6 + b"\x7f\xff\xff\xff" * 4]
    tracemalloc.start()
    for api in APIS.values():
        for version in api.versions:
            for cls in (api.request, api.response):
                decode = compile_decoder(cls, version, version >= api.flexible_from)
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                for bomb in bombs:
                    with contextlib.suppress(DecodeError):
                        decode(bomb)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < 100_000, f"{cls.__name__} version {version} allocated {peak - before} bytes"
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("api", "version", "kind"), [case for case in CASES if case.values[1] >= case.values[0].flexible_from]
)
def test_unknown_tagged_fields_are_skipped(api: Api, version: int, kind: str) -> None:
    """A message ends in its tagged fields: one more, with an unknown tag, changes nothing."""
    cls = api.request if kind == "request" else api.response
    encode, decode = compile_encoder(cls, version, True), compile_decoder(cls, version, True)
    message = cls()
    data = b"".join(encode(message))
    assert data.endswith(b"\0"), "no tagged fields"
    unknown = b"\x01" + encode_uvarint(9999) + encode_uvarint(5) + b"12345"
    assert decode(data[:-1] + unknown) == message


def test_bytes_after_the_message_are_ignored() -> None:
    """confluent-kafka 2.16 sends three bytes too many after a Metadata request in version 13."""
    api = APIS[3]
    encode, decode = compile_encoder(api.request, 13, True), compile_decoder(api.request, 13, True)
    assert decode(b"".join(encode(api.request())) + b"\0\0\0") == api.request()
