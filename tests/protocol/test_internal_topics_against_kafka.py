"""The records of `__consumer_offsets` and `__transaction_state` against Kafka's own classes for them.

`java/Records.java` has the Java side: Kafka reads our random records to the same values, and writes them to the same
bytes. Maven brings the classes from Maven Central.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from purgatorio.protocol.consumer_offsets import KINDS, RecordKind
from purgatorio.protocol.message import ArrayType, BytesType, Fixed, StructType, WireField, WireType, fields_of
from purgatorio.protocol.transaction_state import KEYS, VALUES
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.java import SHORT, class_path, compiled, needs_java
from tests.protocol.random_messages import Maker

FOLDER = Path(__file__).parent / "java"
JAVA_TIMEOUT_SECONDS = 60
ROUNDS = 20
ALWAYS_WRITTEN = "classic_member_metadata"

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + JAVA_TIMEOUT_SECONDS),
    needs_java,
]


@pytest.fixture(scope="module")
def records_class(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> str:
    """The class path of `Records.java` and of Kafka's classes."""
    libraries = class_path(FOLDER / "pom.xml", pytestconfig.cache)
    return compiled(FOLDER / "Records.java", libraries, tmp_path_factory.mktemp("internal-topics"))


def kafka_reads(path: str, topic: str, records: list[tuple[bytes, bytes]]) -> list[list[str]]:
    """Return for each record its key and value as Kafka's JSON, and as the hexadecimal bytes that Kafka writes."""
    command = ["java", *SHORT, "-cp", path, "-Dfile.encoding=UTF-8", "Records", topic]
    lines = "".join(f"{key.hex()} {value.hex()}\n" for key, value in records)
    ran = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=JAVA_TIMEOUT_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return [line.split("\t") for line in ran.stdout.decode().splitlines()]


def random_transactions() -> list[tuple[int, Any, Any]]:
    """Return records of transactions: the value's version, key and value."""
    return [
        (version, maker.message(KEYS.cls), maker.message(VALUES.cls))
        for version in VALUES.versions
        for number in range(10 * ROUNDS)
        for maker in [Maker(f"transaction {version} {number}", version)]
    ]


def random_records() -> list[tuple[RecordKind, int, int, Any, Any]]:
    """Return records of all kinds: the kind, the key's type, the value's version, key and value."""
    return [
        (kind, record_type, version, maker.message(kind.keys.cls), maker.message(kind.values.cls))
        for kind in KINDS
        for record_type in kind.keys.versions
        # In records of type 0, Kafka knows values of version 0 only.
        for version in (kind.values.versions if record_type else range(1))
        for number in range(ROUNDS)
        for maker in [Maker(f"{kind.values.cls.__name__} {record_type} {version} {number}", version)]
    ]


def theirs(wire_type: WireType[Any], ours: Any, version: int) -> Any:
    """Return a value of ours as Kafka's JSON has it."""
    match wire_type:
        case _ if ours is None:
            return None
        case Fixed(code="16s"):
            return base64.urlsafe_b64encode(ours).rstrip(b"=").decode()
        case BytesType():
            return base64.b64encode(ours).decode()
        case ArrayType():
            return [theirs(wire_type.element, each, version) for each in ours]
        case StructType():
            return struct(ours, version)
    return ours


def struct(ours: Any, version: int) -> dict[str, Any]:
    """Return a struct of ours as Kafka's JSON has it, which leaves out tagged fields that are not written."""
    return {
        field.name: theirs(field.wire.type, value, version)
        for field in fields_of(type(ours))
        if field.is_in(version)
        for value in [getattr(ours, field.name)]
        if field.wire.tag is None or field.name == ALWAYS_WRITTEN or value != default(field)
    }


def default(field: WireField) -> Any:
    return field.fresh() if field.fresh is not None else field.default


def named_like_ours(theirs: Any) -> Any:
    """Return Kafka's JSON with names in our way: in snake case, and with units."""
    if isinstance(theirs, list):
        return [named_like_ours(each) for each in theirs]
    if not isinstance(theirs, dict):
        return theirs
    return {our_name(name): named_like_ours(value) for name, value in theirs.items()}


def our_name(name: str) -> str:
    snake = re.sub("([A-Z])", r"_\1", name).lower()
    if snake.endswith(("timestamp", "timeout")):
        return f"{snake}_ms"
    return "group_id" if snake == "group" else snake


def test_kafka_reads_and_writes_the_same_groups(records_class: str) -> None:
    records = random_records()
    encoded = [
        (kind.keys.encode(key, record_type), kind.values.encode(value, version))
        for kind, record_type, version, key, value in records
    ]
    answers = kafka_reads(records_class, "__consumer_offsets", encoded)
    assert_the_same([(version, key, value) for _, _, version, key, value in records], encoded, answers)


def test_kafka_reads_and_writes_the_same_transactions(records_class: str) -> None:
    records = random_transactions()
    encoded = [(KEYS.encode(key, 0), VALUES.encode(value, version)) for version, key, value in records]
    assert_the_same(records, encoded, kafka_reads(records_class, "__transaction_state", encoded))


def assert_the_same(
    records: list[tuple[int, Any, Any]], encoded: list[tuple[bytes, bytes]], answers: list[list[str]]
) -> None:
    assert len(answers) == len(records)
    for (version, key, value), (key_bytes, value_bytes), answer in zip(records, encoded, answers, strict=True):
        assert named_like_ours(json.loads(answer[0])) == struct(key, 0)
        assert named_like_ours(json.loads(answer[1])) == struct(value, version)
        assert (bytes.fromhex(answer[2]), bytes.fromhex(answer[3])) == (key_bytes, value_bytes)
