"""The tags of fields, beside the entity types of Kafka's own schemas, which kio has as types."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema import types

from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import UUID, Api, ArrayType, StructType, Wire, WireField, fields_of
from tests.protocol.kio_values import named
from tests.protocol.random_messages import CASES
from tests.protocol.test_messages_against_kio import kio_type

KAFKAS = {
    types.BrokerId: Entity.BROKER_ID,
    types.GroupId: Entity.GROUP_ID,
    types.ProducerId: Entity.PRODUCER_ID,
    types.TopicName: Entity.TOPIC_NAME,
    types.TransactionalId: Entity.TRANSACTIONAL_ID,
}
UNTAGGED_BY_KAFKA = {ApiKey(key).name for key in range(83, 88)}
"""Requests about the state of share groups: the groups that they name have no entity type in Kafka's schemas."""
PARTITIONS = frozenset(("partition", "partition_id", "partition_index", "partition_indexes"))


def kio_types(hint: Any) -> set[Any]:
    """Return the types in a hint: of a value, of a value or None, or of the values in a tuple."""
    inner = typing.get_args(hint)
    return set().union(*map(kio_types, inner)) if inner else {hint}


def element(wire: Wire) -> Any:
    inner = wire.type.element if isinstance(wire.type, ArrayType) else wire.type
    return inner.cls if isinstance(inner, StructType) else None


def differing(ours: type, theirs: Any) -> Iterator[str]:
    """Yield the fields of a version of a message whose tags differ from those of kio's."""
    mine = {field.name: field for field in fields_of(ours)}
    hints = typing.get_type_hints(theirs)
    for each in dataclasses.fields(theirs):
        field = named(mine, each.name)
        found = kio_types(hints[each.name])
        kafkas = next((entity for cls, entity in KAFKAS.items() if cls in found), None)
        if kafkas is not (field.wire.entity if field.wire.entity in KAFKAS.values() else None):
            yield f"{ours.__name__}.{field.name}: {field.wire.entity}, not {kafkas}"
        if (inner := element(field.wire)) is not None:
            yield from differing(inner, next(filter(dataclasses.is_dataclass, found)))


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_fields_are_tagged_as_in_kafkas_schemas(api: Api, version: int, kind: str) -> None:
    """No field lacks the entity type that Kafka's schema has for it, and none has another one."""
    cls = api.request if kind == "request" else api.response
    group = f"{cls.__name__}.group_id: {Entity.GROUP_ID}, not None"
    known = [group] if api.key.name in UNTAGGED_BY_KAFKA and kind == "request" else []
    assert list(differing(cls, kio_type(api, version, kind))) == known


def all_fields(cls: Any) -> Iterator[tuple[str, WireField]]:
    for field in fields_of(cls):
        yield f"{cls.__name__}.{field.name}", field
        if (inner := element(field.wire)) is not None:
            yield from all_fields(inner)


def test_topic_ids_and_partitions_are_tagged() -> None:
    """Kafka has no entity type for a topic's id and a partition's index; their names tell them."""
    untagged = set()
    for api in APIS.values():
        for cls in (api.request, api.response):
            for path, field in all_fields(cls):
                is_id = field.name == "topic_id" and field.wire.type is UUID
                is_index = field.name in PARTITIONS or (field.name == "partitions" and element(field.wire) is None)
                wanted = Entity.TOPIC_ID if is_id else Entity.PARTITION if is_index else None
                if wanted is not None and field.wire.entity is not wanted:
                    untagged.add(path)
    assert untagged == set()
