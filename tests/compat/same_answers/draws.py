"""Requests that are drawn from the declarations of the messages: of each field its edges, in each version.

A request that is right has every array once, and names what there is (`BASES`). A draw changes one field of it: null,
empty, unknown, negative, the largest, twice, odd. Some more change two fields at once; `SEED` says which. Nothing here
is sent: `drawn.py` does that, and a test compares what it has asked with the declarations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from purgatorio.broker.api.routes import APIS as ANSWERED
from purgatorio.broker.metadata.releases import releases
from purgatorio.broker.metadata.topic_name import METADATA_TOPIC, OFFSETS_TOPIC
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import ArrayType, Fixed, StringType, StructType, WireField, fields_of
from purgatorio.protocol.primitives import ZERO_UUID

RELEASE: Final = "4.4"
SEED: Final = 18
PAIRS: Final = 4
"""How many draws of each version change two fields at once."""
STRANGE_ID: Final = b"\x07" * 16
LATER_ID: Final = b"\x75" * 16
LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 8, 16, 32


@dataclass(frozen=True)
class Told:
    """A value that each cluster has in its own words, as the id of a topic; `Names` of the draw have it."""

    name: str


class _Several:
    """An array with the right element, again or between strange ones."""


ONCE: Final = _Several()
TWICE: Final = _Several()
AMONG_STRANGERS: Final = _Several()
Plan = Mapping[str, Any]
"""Values by the paths of their fields."""
Names = Mapping[str, Any]


@dataclass(frozen=True)
class Draw:
    """A request: what it changes of the right one.

    Attributes:
        label: says it, in the lines of differences.
        paths: the fields that it is about.
        plan: the values of all fields that are not as their declarations have them.
    """

    label: str
    paths: tuple[str, ...]
    plan: Plan


OF_ENTITY: Final[dict[Entity, Any]] = {
    Entity.TOPIC_NAME: Told("topic"),
    Entity.TOPIC_ID: Told("topic_id"),
    Entity.GROUP_ID: Told("group"),
    Entity.PRODUCER_ID: Told("producer_id"),
    Entity.TRANSACTIONAL_ID: Told("transactional_id"),
    Entity.PARTITION: 0,
    Entity.COORDINATOR_KEY: Told("group"),
    Entity.CONFIG_RESOURCE_TYPE: 2,
    Entity.CONFIG_RESOURCE: Told("topic"),
    Entity.SCRAM_USER: Told("user"),
}
RETENTION: Final = {"name": "retention.ms", "value": "9000000000000"}
OF_ACL: Final = {
    "resource_type": 2,
    "resource_name": Told("topic"),
    "resource_pattern_type": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
OF_FILTER: Final = {
    "resource_type_filter": 2,
    "resource_name_filter": Told("topic"),
    "pattern_type_filter": 3,
    "principal_filter": "User:ann",
    "host_filter": "*",
    "operation": 3,
    "permission_type": 3,
}


def _below(prefix: str, plan: Plan) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in plan.items()}


CONFIGS: Final = _below("resources.configs", RETENTION)
MEMBER: Final = {"member_id": Told("member_id"), "generation_id": Told("generation")}
PRODUCER: Final = {"producer_epoch": Told("producer_epoch")}
SHARE_FETCH: Final = {
    "member_id": Told("share_member"),
    "max_records": 100,
    "batch_size": 100,
    "max_bytes": 1_000_000,
    "forgotten_topics_data": [],
    "topics.partitions.acknowledgement_batches": [],
}
OF_ACKNOWLEDGEMENT: Final = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
BASES: Final[dict[ApiKey, dict[str, Any]]] = {
    ApiKey.PRODUCE: {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 5_000,
        "topic_data.partition_data.records": Told("batch"),
    },
    ApiKey.FETCH: {
        "max_bytes": 1_000_000,
        "topics.partitions.partition_max_bytes": 1_000_000,
        "forgotten_topics_data": [],
    },
    ApiKey.LIST_OFFSETS: {"topics.partitions.timestamp": -1, "timeout_ms": 5_000},
    ApiKey.METADATA: {"topics.topic_id": ZERO_UUID, "allow_auto_topic_creation": False},
    ApiKey.JOIN_GROUP: {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols.name": "range",
        "protocols.metadata": Told("subscription"),
    },
    ApiKey.HEARTBEAT: MEMBER,
    ApiKey.LEAVE_GROUP: MEMBER | {"members.member_id": Told("member_id")},
    ApiKey.SYNC_GROUP: MEMBER
    | {
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments.member_id": Told("member_id"),
        "assignments.assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff",
    },
    ApiKey.LIST_GROUPS: {"states_filter": [], "types_filter": []},
    ApiKey.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    ApiKey.API_VERSIONS: {"client_software_name": "drawn", "client_software_version": "1"},
    ApiKey.CREATE_TOPICS: {
        "topics.name": Told("new_topic"),
        "topics.num_partitions": 1,
        "topics.replication_factor": 1,
        "topics.assignments": [],
        "topics.configs.name": "retention.ms",
        "topics.configs.value": "9000000000000",
    },
    ApiKey.DELETE_TOPICS: {"topics.topic_id": ZERO_UUID, "timeout_ms": 5_000},
    ApiKey.DELETE_RECORDS: {"timeout_ms": 5_000},
    ApiKey.INIT_PRODUCER_ID: {
        "transactional_id": Told("new_transactional_id"),
        "transaction_timeout_ms": 30_000,
        "producer_id": -1,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "transactions.producer_epoch": Told("producer_epoch"),
        "v3_and_below_producer_epoch": Told("producer_epoch"),
    },
    ApiKey.ADD_OFFSETS_TO_TXN: PRODUCER,
    ApiKey.END_TXN: PRODUCER,
    ApiKey.WRITE_TXN_MARKERS: {"markers.producer_epoch": Told("producer_epoch"), "markers.transaction_result": True},
    ApiKey.TXN_OFFSET_COMMIT: PRODUCER,
    ApiKey.DESCRIBE_ACLS: OF_FILTER,
    ApiKey.CREATE_ACLS: _below("creations", OF_ACL),
    ApiKey.DELETE_ACLS: _below("filters", OF_FILTER),
    ApiKey.DESCRIBE_CONFIGS: {"resources.configuration_keys": ["retention.ms"]},
    ApiKey.ALTER_CONFIGS: CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"dirs.path": "/nowhere"},
    ApiKey.CREATE_PARTITIONS: {
        "topics.count": 3,
        "topics.assignments": None,
        "timeout_ms": 5_000,
        "validate_only": True,
    },
    ApiKey.ELECT_LEADERS: {"timeout_ms": 5_000},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"timeout_ms": 5_000},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"timeout_ms": 5_000},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"components.entity_type": "user", "components.match": Told("user")},
    ApiKey.ALTER_CLIENT_QUOTAS: {
        "entries.entity.entity_type": "user",
        "entries.entity.entity_name": Told("user"),
        "entries.ops.key": "producer_byte_rate",
        "entries.ops.value": 100_000.0,
        "validate_only": True,
    },
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
        "deletions": [],
        "upsertions.mechanism": 1,
        "upsertions.iterations": 4096,
        "upsertions.salt": b"salt",
        "upsertions.salted_password": b"p" * 32,
    },
    ApiKey.DESCRIBE_QUORUM: {"topics.topic_name": "__cluster_metadata"},
    ApiKey.UPDATE_FEATURES: {
        "timeout_ms": 5_000,
        "feature_updates.feature": "group.version",
        "feature_updates.max_version_level": 1,
        "validate_only": True,
    },
    ApiKey.LIST_TRANSACTIONS: {"state_filters": [], "transactional_id_pattern": None},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "member_id": Told("new_member"),
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_regex": None,
        "topic_partitions": [],
    },
    ApiKey.SHARE_GROUP_HEARTBEAT: {"member_id": Told("new_member")},
    ApiKey.SHARE_FETCH: SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE: {
        "member_id": Told("share_member"),
        "share_session_epoch": 1,
        **_below("topics.partitions.acknowledgement_batches", OF_ACKNOWLEDGEMENT),
    },
    ApiKey.WRITE_SHARE_GROUP_STATE: {
        "topics.partitions.delivery_complete_count": 0,
        "topics.partitions.state_batches.delivery_count": 1,
    },
}
"""The right requests, where the declarations' defaults and `OF_ENTITY` are not."""
BELOW: Final[dict[tuple[ApiKey, str], dict[str, Any]]] = {
    (ApiKey.CREATE_TOPICS, "topics.assignments"): {"topics.num_partitions": -1, "topics.replication_factor": -1},
    (ApiKey.SHARE_FETCH, "topics.partitions.acknowledgement_batches"): {
        "share_session_epoch": 1,
        **_below("topics.partitions.acknowledgement_batches", OF_ACKNOWLEDGEMENT),
    },
    (ApiKey.SHARE_FETCH, "forgotten_topics_data"): {"share_session_epoch": 1, "topics": []},
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "deletions"): {"upsertions": [], "deletions.mechanism": 1},
}
"""What else a request has if one of the fields below a path that is empty by default is drawn."""
HASTY: Final = "The time is over before the change is made, or not, as it comes."
OF_ALL: Final = "Both clusters would lose what all later requests are about."
UNANSWERED: Final = "Apache Kafka does not answer."
LEFT_OUT: Final[dict[tuple[ApiKey, str], tuple[range, str]]] = {
    (ApiKey.PRODUCE, "acks=0"): (range(3, 14), "There is no answer."),
    (ApiKey.PRODUCE, "topic_data.partition_data.records=null"): (range(3, 14), UNANSWERED),
    (ApiKey.JOIN_GROUP, "protocols=twice"): (range(4), UNANSWERED),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "transactions=empty"): (range(4, 6), UNANSWERED),
    (ApiKey.WRITE_TXN_MARKERS, "markers.topics=twice"): (range(1, 3), UNANSWERED),
    (ApiKey.WRITE_TXN_MARKERS, "markers.topics.partition_indexes=twice"): (range(1, 3), UNANSWERED),
    (ApiKey.ALTER_CONFIGS, "resources=twice"): (range(3), UNANSWERED),
    (ApiKey.ALTER_CONFIGS, "resources=among strangers"): (range(3), UNANSWERED),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "groups.topics.partitions=among strangers"): (range(2), UNANSWERED),
    (ApiKey.DELETE_TOPICS, "topics.name=internal"): (range(6, 7), OF_ALL),
    (ApiKey.CREATE_TOPICS, "timeout_ms=1"): (range(2, 8), HASTY),
    (ApiKey.DELETE_TOPICS, "timeout_ms=1"): (range(1, 7), HASTY),
    (ApiKey.CREATE_PARTITIONS, "timeout_ms=1"): (range(4), HASTY),
    (ApiKey.ELECT_LEADERS, "timeout_ms=1"): (range(3), HASTY),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "timeout_ms=1"): (range(2), HASTY),
}
"""The versions of draws that are not asked, and why."""


def compared_versions(key: ApiKey) -> range:
    """Return the versions of an API that both clusters answer."""
    answered = next(api.answered_versions for api in ANSWERED if api.key == key)
    lowest, highest = releases()[RELEASE].versions[key]
    return range(max(answered[0], lowest), min(answered[-1], highest) + 1)


def compared_apis() -> list[ApiKey]:
    """Return the APIs that both clusters answer."""
    return sorted(api.key for api in ANSWERED if api.key in releases()[RELEASE].versions)


def paths_of(key: ApiKey, version: int) -> list[str]:
    """Return the paths of all fields that a request has in a version; of a struct those in it."""
    return [path for path, field in _fields(APIS[key].request, version) if not isinstance(field.wire.type, StructType)]


def _fields(cls: Any, version: int, prefix: str = "") -> Iterator[tuple[str, WireField]]:
    for field in fields_of(cls):
        if field.is_in(version):
            yield f"{prefix}{field.name}", field
            inner = field.wire.type.element if isinstance(field.wire.type, ArrayType) else field.wire.type
            if isinstance(inner, StructType):
                yield from _fields(inner.cls, version, f"{prefix}{field.name}.")


def draws(key: ApiKey, version: int) -> list[Draw]:
    """Return the draws of a version: the right request, each edge of each field, and some pairs of them."""
    base = BASES.get(key, {})
    found = [Draw("right", (), base)]
    for path, field in _fields(APIS[key].request, version):
        around = _around(key, path)
        right = {**OF_ENTITY, None: field.default}.get(field.wire.entity, field.default)
        found += [
            Draw(f"{path}={label}", (path,), base | around | {path: value})
            for label, value in _edges(field, version).items()
            if version not in LEFT_OUT.get((key, f"{path}={label}"), ((), ""))[0]
            and not _same((base | around).get(path, right), value)
        ]
    return found + _pairs(key, version, found[1:], base)


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _around(key: ApiKey, path: str) -> dict[str, Any]:
    """Return what a right request has besides, so that a field in an array that is empty by default is in it."""
    around: dict[str, Any] = {}
    for prefix, value in BASES.get(key, {}).items():
        if f"{path}.".startswith(f"{prefix}.") and (value is None or value == []):
            around |= {prefix: None} | BELOW.get((key, prefix), {})
            around[prefix] = ONCE
    return around


def _pairs(key: ApiKey, version: int, single: list[Draw], base: Plan) -> list[Draw]:
    chosen = random.Random(f"{SEED} {key} {version}")
    found = []
    for _ in range(PAIRS if single else 0):
        one, other = chosen.choice(single), chosen.choice(single)
        related = any(each.startswith(path) for each in one.paths for path in other.paths) or any(
            each.startswith(path) for each in other.paths for path in one.paths
        )
        if not related:
            found.append(
                Draw(f"{one.label}, {other.label}", one.paths + other.paths, {**base, **one.plan, **_new(other, base)})
            )
    return list({draw.label: draw for draw in found}.values())


def _new(draw: Draw, base: Plan) -> dict[str, Any]:
    """Return what a draw has otherwise than the right request."""
    return {path: value for path, value in draw.plan.items() if path not in base or base[path] is not value}


BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}
FLOATS: Final = (0.0, -1.0, 0.5, float("nan"), float("inf"), 1e300)
OF_CODE: Final[dict[str, dict[str, Any]]] = {
    "?": {"true": True, "false": False},
    "d": {str(value): value for value in FLOATS},
    "16s": {"zero": ZERO_UUID, "unknown": STRANGE_ID},
}
OF_STRING: Final = {"empty": "", "unknown": Told("unknown"), "odd": Told("odd"), "long": Told("long")}
OF_TOPIC_NAME: Final = {"internal": OFFSETS_TOPIC, "of the controllers": METADATA_TOPIC, **OF_STRING}
FEW: Final = (2, 3, 4, 5, 9)
"""Of an int8, as most are of an enumeration."""
OF_RESOURCE_TYPE: Final = (*FEW, LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


def _edges(field: WireField, version: int) -> dict[str, Any]:
    """Return the values at the edges of a field's type, by what they are called; those of a struct are its fields'."""
    kind = field.wire.type
    if isinstance(kind, StructType):
        return {}
    edges: dict[str, Any] = {"null": None} if field.is_nullable(version) else {}
    if isinstance(kind, ArrayType):
        return edges | {"empty": [], "twice": TWICE, "among strangers": AMONG_STRANGERS}
    if isinstance(kind, StringType):
        return edges | (OF_TOPIC_NAME if field.wire.entity is Entity.TOPIC_NAME else OF_STRING)
    if isinstance(kind, Fixed):
        return edges | (OF_CODE.get(kind.code) or _numbers(kind.code, field.wire.entity))
    return edges | {"empty": b"", "garbage": b"\1\2\3"}


def _numbers(code: str, entity: Entity | None) -> dict[str, Any]:
    largest = (1 << BITS[code] - 1) - 1
    few = FEW if code == "b" else ()
    if entity is Entity.CONFIG_RESOURCE_TYPE:
        few = OF_RESOURCE_TYPE
    return {str(value): value for value in (-largest - 1, -1, 0, 1, *few, largest)}


def request_of(key: ApiKey, version: int, draw: Draw, names: Names) -> Any:
    """Return the request of a draw, with one cluster's names."""
    return _built(APIS[key].request, version, draw.plan, names, "")


def _built(cls: Any, version: int, plan: Plan, names: Names, prefix: str) -> Any:
    values = {
        field.name: _value(field, version, plan, names, f"{prefix}{field.name}")
        for field in fields_of(cls)
        if field.is_in(version)
    }
    return cls(**values)


def _value(field: WireField, version: int, plan: Plan, names: Names, path: str) -> Any:
    wire, missing = field.wire, object()
    value = plan.get(path, missing)
    if isinstance(wire.type, ArrayType):
        if value is not missing and not isinstance(value, _Several):
            return value if value is None else [_told(each, names) for each in value]
        return _elements(wire.type.element, wire.entity, version, plan, names, path, value)
    if value is not missing and not isinstance(value, _Several):
        return _told(value, names)
    if isinstance(wire.type, StructType):
        below = any(each.startswith(f"{path}.") for each in plan)
        return _built(wire.type.cls, version, plan, names, f"{path}.") if below else field.default
    default = wire.entity in OF_ENTITY
    return _told(OF_ENTITY[wire.entity], names) if default and wire.entity is not None else field.default


def _told(value: Any, names: Names) -> Any:
    return names[value.name] if isinstance(value, Told) else value


def _elements(
    element: Any, entity: Entity | None, version: int, plan: Plan, names: Names, path: str, value: object
) -> list[Any]:
    """Return an array with the right element, again or among strange ones if that is drawn."""
    if isinstance(element, StructType):
        strange_at = next((each for each in fields_of(element.cls) if each.is_in(version)), None)

        def made(strange: int | None) -> Any:
            changed = dict(plan)
            if strange is not None and strange_at is not None:
                changed[f"{path}.{strange_at.name}"] = _strange(strange_at.wire.type, strange)
            return _built(element.cls, version, changed, names, f"{path}.")
    else:

        def made(strange: int | None) -> Any:
            if strange is not None:
                return _strange(element, strange)
            if entity is Entity.BROKER_ID:
                return 1
            if entity is not None:
                return _told(OF_ENTITY[entity], names)
            return "unknown" if isinstance(element, StringType) else 0

    if value is TWICE:
        return [made(None), made(None)]
    return [made(1), made(None), made(0)] if value is AMONG_STRANGERS else [made(None)]


def _strange(kind: Any, number: int) -> Any:
    """Return a value that names nothing; that of number 1 is the larger one."""
    if isinstance(kind, StringType):
        return ("a-strange", "z-strange")[number]
    if isinstance(kind, Fixed) and kind.code == "16s":
        return (STRANGE_ID, LATER_ID)[number]
    if isinstance(kind, Fixed) and kind.code == "?":
        return bool(number)
    return 98 + number if isinstance(kind, Fixed) else []
