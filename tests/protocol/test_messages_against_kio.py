"""Every message in every version against kio, which is generated from Kafka's own message definitions.

kio decodes our bytes to the same values and encodes those to the same bytes, and we decode our bytes to the message.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.decoder import compile_decoder
from purgatorio.protocol.encoder import compile_encoder
from purgatorio.protocol.message import Api
from tests.protocol.kio_values import same, written
from tests.protocol.random_messages import CASES, Maker

ROUNDS = 5
NEWER = {(ApiKey.DELETE_GROUPS, 3), (ApiKey.API_VERSIONS, 5), (ApiKey.TXN_OFFSET_COMMIT, 6)}
"""What came with Kafka 4.4; kio has the definitions of 4.3."""


def kio_type(api: Api, version: int, kind: str) -> Any:
    if (api.key, version) in NEWER:
        pytest.skip("kio does not have it yet")
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
