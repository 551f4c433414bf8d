"""Every message in every version against kafka-python, which implements Kafka's message definitions independently.

Where the two differ, kafka-python differs from Kafka; kio, which is generated from Kafka's definitions, agrees with us.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

import pytest

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.encoder import compile_encoder
from purgatorio.protocol.message import Api, fields_of
from tests.protocol.random_messages import CASES, Maker

ROUNDS = 5
# It reads an ApiVersions response that has an error code as version 0.
ERRORS_READ_AS_VERSION_0 = "ApiVersionsResponse"
# It does not speak the consumer protocol of KIP-848, nor about share groups (KIP-932).
UNKNOWN_APIS = {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, *range(76, 80), *range(83, 93)}
# It gives bit fields as sets, under other names.
GIVEN_AS_A_SET = {"authorized_operations", "cluster_authorized_operations", "topic_authorized_operations"}


@cache
def their_classes() -> dict[str, Any]:
    """Return kafka-python's message classes by name."""
    found: dict[str, Any] = {}
    for package in ("admin", "consumer", "metadata", "producer", "sasl"):
        root = importlib.import_module(f"kafka.protocol.{package}")
        parts = pkgutil.iter_modules(getattr(root, "__path__", ()))
        modules = [root, *(importlib.import_module(f"{root.__name__}.{part.name}") for part in parts)]
        for module in modules:
            found.update({name: value for name, value in vars(module).items() if hasattr(value, "valid_versions")})
    return found


def same(ours: Any, theirs: Any, version: int) -> bool:
    if hasattr(type(ours), "__dataclass_fields__"):
        if theirs is None:  # an absent tagged struct, which has its default
            return bool(ours == type(ours)())
        return all(
            same(getattr(ours, field.name), named(theirs, field.name), version)
            for field in fields_of(type(ours))
            if field.is_in(version) and field.name not in GIVEN_AS_A_SET
        )
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(same(a, b, version) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, bytes) and hasattr(theirs, "bytes"):
        return bool(ours == theirs.bytes)
    return bool(ours == theirs) or (ours == bytes(16) and theirs is None)


def named(theirs: Any, name: str) -> Any:
    """Return their field for our name, which ends in the unit where Kafka's does not."""
    return getattr(theirs, name if hasattr(theirs, name) else name.removesuffix("_ms"))


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_kafka_python_reads_the_same(api: Api, version: int, kind: str) -> None:
    cls = api.request if kind == "request" else api.response
    theirs_class = their_classes().get(cls.__name__)
    if api.key in UNKNOWN_APIS and theirs_class is None:
        pytest.skip(f"kafka-python has no {cls.__name__}")
    assert theirs_class is not None, f"kafka-python has no {cls.__name__}"
    lowest, highest = theirs_class.valid_versions
    if not lowest <= version <= highest:
        pytest.skip(f"kafka-python has {cls.__name__} in versions {lowest} to {highest} only")
    encode = compile_encoder(cls, version, version >= api.flexible_from)
    for number in range(ROUNDS):
        ours = Maker(f"{cls.__name__} {version} {number}", version).message(cls)
        if cls.__name__ == ERRORS_READ_AS_VERSION_0:
            ours.error_code = 0
        data = b"".join(encode(ours))
        theirs = theirs_class.decode(data, version=version)
        assert same(ours, theirs, version), (ours, theirs)
