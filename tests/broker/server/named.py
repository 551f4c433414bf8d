"""A broker that has much of everything, and requests that name it: the same thing often, many things, or all of them.

The requests are made from the declarations of messages. Each text and each enumeration of a request has to be told
here what it may name (`NAMES`, `CODES`), so that a new API cannot go without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from purgatorio.broker.api.routes import APIS as REGISTERED
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import ClassicGroupMember, GroupState
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import CurrentAssignment
from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange
from purgatorio.broker.group.share.share_group import ShareAssignment, ShareGroup
from purgatorio.broker.group.share.state_partitions import NamedPartitions, StatePartitions
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.metadata.clients import QuotaEntity, ScramCredential, ScramMechanism, ScramUser
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.values import TransactionValue
from purgatorio.protocol.api import APIS, ApiKey, encode_request
from purgatorio.protocol.group_records import ConsumerGroupMemberMetadataValue, ShareGroupMemberMetadataValue
from purgatorio.protocol.message import ArrayType, BytesType, Fixed, StringType, StructType, WireField, fields_of
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.transaction_state import TransactionState
from tests.broker.server.holding import Target
from tests.broker.server.hostile import HostileRequest, Path, wide_paths

DEFAULT: Final = object()
"""Stands for a value that a message is made without."""

MANY: Final = 3_900
"""As many elements as one request names."""
PARTITIONS: Final = 1_000
MAX_INNER: Final = 2
"""The most arrays that an element of a wide array has: each of them has an element, and all of them count."""
OFFSETS: Final = 1_000
CLASSIC_MEMBERS: Final = 200
CONSUMER_MEMBERS: Final = 100
SHARE_MEMBERS: Final = 100
MEMBER_BYTES: Final = 1_000
"""A classic member's subscription, and its assignment."""
IDS: Final = 10_000
"""Groups, and transactional ids."""
ACLS: Final = 10_000

TOPIC: Final = ("wide", "topic{}")
GROUP: Final = ("classic", "consumer", "offsets", "group{}")
PRODUCER: Final = ("producer", "producer{}")
USER: Final = ("user0", "user{}")
NEW: Final = ("new", "new{}")
"""Names of nothing that exists, also for texts of which any will do."""

NAMES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("name", "topic", "topic_name", "topic_names", "subscribed_topic_names"), TOPIC),
    **dict.fromkeys(("resource_name", "resource_name_filter"), TOPIC),
    **dict.fromkeys(("group_id", "group_ids", "groups", "groups_names", "key", "coordinator_keys"), GROUP),
    **dict.fromkeys(
        ("transactional_id", "transactional_ids", "v3_and_below_transactional_id", "transactional_id_pattern"), PRODUCER
    ),
    **dict.fromkeys(("match", "entity_name"), USER),
    **dict.fromkeys(("member_id", "instance_id", "group_instance_id", "rack_id", "reason", "cluster_id"), NEW),
    **dict.fromkeys(("client_software_name", "client_software_version", "committed_metadata", "mechanism"), NEW),
    **dict.fromkeys(("state_filters", "states_filter", "types_filter"), NEW),
    **dict.fromkeys(("principal", "principal_filter"), ("User:user0", "User:user{}")),
    "entity_type": ("user",),
    "host": ("*",),
    "host_filter": ("*",),
    "configuration_keys": ("retention.ms", "new{}"),
    "feature": ("transaction.version", "new{}"),
    "path": ("memory", "new{}"),
    "protocol_name": ("range",),
    "protocol_type": ("consumer",),
    "server_assignor": ("uniform",),
    "subscribed_topic_regex": ("wide",),
    "value": ("1000000",),
}
NAMES_OF: Final[dict[tuple[ApiKey, str], tuple[str, ...]]] = {
    (ApiKey.CREATE_TOPICS, "name"): ("wide", "new{}"),
    (ApiKey.JOIN_GROUP, "name"): ("range", "new{}"),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "name"): USER,
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "name"): USER,
    (ApiKey.ALTER_CLIENT_QUOTAS, "key"): ("producer_byte_rate", "new{}"),
    (ApiKey.SHARE_GROUP_DESCRIBE, "group_ids"): ("share", "group{}"),
    (ApiKey.SHARE_GROUP_HEARTBEAT, "group_id"): ("share", "group{}"),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "group_id"): ("share", "group{}"),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "group_id"): ("idle", "group{}"),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, "group_id"): ("idle", "group{}"),
}
"""What a field names in one API alone."""
CODES: Final[dict[str, int]] = {
    "acknowledge_types": 1,
    "share_acquire_mode": 0,
    "config_operation": 0,
    "delivery_state": 2,
    "resource_type": 2,
    "resource_type_filter": 1,
    "resource_pattern_type": 3,
    "pattern_type_filter": 1,
    "permission_type": 1,
    "operation": 1,
    "match_type": 2,
    "mechanism": 1,
    "election_type": 1,
    "endpoint_type": 1,
    "isolation_level": 1,
    "key_type": 0,
    "transaction_version": 1,
    "upgrade_type": 1,
    "resource_types": 2,
}
CODES_OF: Final[dict[tuple[ApiKey, str], int]] = {
    (ApiKey.CREATE_ACLS, "permission_type"): 3,
    (ApiKey.CREATE_ACLS, "operation"): 3,
}
NUMBERS: Final[dict[str, int]] = {
    "acks": 1,
    "count": PARTITIONS + 1,
    "generation_id": 1,
    "iterations": 4_096,
    "max_bytes": 1_000_000,
    "member_epoch": -1,
    "generation_id_or_member_epoch": -1,
    "num_partitions": 1,
    "partition_max_bytes": 1_000_000,
    "replica_id": -1,
    "replication_factor": 1,
    "response_partition_limit": 2**31 - 1,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "timeout_ms": 5_000,
    "transaction_timeout_ms": 10_000,
}
"""Numbers other than 0; those of partitions count up."""

_ANSWERED: Final = {api.key: api.answered_versions for api in REGISTERED}


class World:
    """A broker with much of everything."""

    def __init__(self, target: Target, broker: Broker) -> None:
        self.target = target
        self._broker = broker

    async def fill(self) -> None:
        """Make everything; in memory alone, where records would take long."""
        await self.target.create("wide", PARTITIONS, {})
        await self.target.create_many([f"topic{number}" for number in range(MANY)])
        for key_type, name in enumerate(("x", "x", f"x:{'A' * 22}:0")):
            request = FindCoordinatorRequest(key=name, key_type=key_type, coordinator_keys=[name])
            await self.target.answer(b"".join(encode_request(ApiKey.FIND_COORDINATOR, 6, 7, "x", request))[4:])
        await self._loaded()
        self._make_groups()
        self._make_transactions()
        await self._change(_with_users)

    async def _loaded(self) -> None:
        broker = self._broker
        while not all(  # noqa: ASYNC110 - only turns of the loop are waited for
            len(list(each.coordinator.shards)) and all(shard.is_active for shard in each.coordinator.shards)
            for each in (broker.groups, broker.transactions, broker.coordinators.shares)
        ):
            await asyncio.sleep(0)

    async def _change(self, edit: Any) -> None:
        done: list[None] = []
        self._broker.store.submit(lambda image: (edit(image), None), done.append)
        while not done:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def _make_groups(self) -> None:
        shard_of = self._broker.groups.coordinator.shard_of
        for name, count, size in [("classic", CLASSIC_MEMBERS, MEMBER_BYTES)] + [
            (f"group{number}", 1, 100) for number in range(IDS)
        ]:
            shard = shard_of(name)
            group = shard.groups[name] = ClassicGroup(name, shard, state_ms=0)
            group.protocol_type, group.protocol, group.generation = "consumer", "range", 1
            group.state = GroupState.STABLE
            for number in range(count):
                member = ClassicGroupMember(
                    member_id=f"member-{number}-0123456789abcdef",
                    instance_id=None,
                    client_id="client",
                    client_host="/192.0.2.7",
                    rebalance_timeout_ms=10_000,
                    session_timeout_ms=10_000,
                    protocols=(("range", bytes(size)),),
                    assignment=bytes(size),
                )
                group.add(member)
        shard = shard_of("consumer")
        consumer = shard.groups["consumer"] = ConsumerGroup("consumer")
        consumer.epoch = consumer.target_epoch = 1
        topic_id = self._broker.image.topics["wide"].topic_id
        share = PARTITIONS // CONSUMER_MEMBERS
        for number in range(CONSUMER_MEMBERS):
            member_id = f"member-{number}-0123456789abcdef"
            held = {topic_id: frozenset(range(number * share, (number + 1) * share))}
            subscription = ConsumerGroupMemberMetadataValue(
                client_id="client", client_host="/192.0.2.7", subscribed_topic_names=["wide"]
            )
            consumer.put_member(member_id, subscription)
            consumer.put_current(member_id, CurrentAssignment(epoch=1, previous_epoch=1, assigned=held))
            consumer.target[member_id] = held
        for name, count in (("share", SHARE_MEMBERS), ("idle", 0)):
            self._make_share_group(shard_of(name), name, topic_id, count)
        offsets = shard_of("offsets").offsets
        for number in range(OFFSETS):
            committed = CommittedOffset(number, 0, "m" * 100, 0)
            offsets.apply(OffsetChange("offsets", "wide", number, committed))

    @staticmethod
    def _make_share_group(shard: Any, name: str, topic_id: bytes, members: int) -> None:
        group = shard.groups[name] = ShareGroup(name)
        group.epoch = group.target_epoch = 1
        every = frozenset(range(PARTITIONS))
        group.put_states(StatePartitions(initialized={topic_id: NamedPartitions("wide", every)}))
        for number in range(members):
            member_id = f"member-{number}"
            subscription = ShareGroupMemberMetadataValue(
                client_id="client", client_host="/192.0.2.7", subscribed_topic_names=["wide"]
            )
            group.put_member(member_id, subscription)
            held = {topic_id: frozenset(range(number, PARTITIONS, members))}
            group.put_current(member_id, ShareAssignment(1, 0, held))
            group.put_target(member_id, held)

    def _make_transactions(self) -> None:
        shard_of = self._broker.transactions.coordinator.shard_of
        partitions = {TopicPartition("wide", number): None for number in range(PARTITIONS)}
        for nth, name in enumerate(["producer", *(f"producer{number}" for number in range(IDS))]):
            value = TransactionValue(
                state=TransactionState.COMPLETE_COMMIT if nth else TransactionState.ONGOING,
                producer_id=1_000_000 + nth,
                producer_epoch=0,
                timeout_ms=10_000,
                partitions={} if nth else partitions,
                started_ms=1,
                updated_ms=1,
            )
            shard_of(name).transactions[name] = Transaction(name, value)


def _with_users(image: ClusterImage) -> ClusterImage:
    """ACLs, quotas and credentials of many users."""
    credential = ScramCredential(bytes(16), bytes(32), bytes(32), 4_096)
    return (
        image.with_acls(
            AclBinding(
                ResourceType.TOPIC,
                f"topic{number}",
                PatternType.LITERAL,
                f"User:user{number}",
                "*",
                AclOperation.READ,
                PermissionType.ALLOW,
            )
            for number in range(ACLS)
        )
        .with_client_quotas({QuotaEntity(user=f"user{n}"): {"producer_byte_rate": 1e9} for n in range(MANY)})
        .with_scram_credentials({ScramUser(f"user{n}", ScramMechanism.SCRAM_SHA_256): credential for n in range(MANY)})
    )


class Naming(NamedTuple):
    """How a request names things.

    Attributes:
        nth: which of the names in `NAMES` the widest array has.
        path: the array that has `MANY` elements; empty: none has, and arrays that may be null are.
        flag: the value of the boolean fields.
        deep: whether the other arrays have an element; they are empty or null otherwise.
    """

    nth: int
    path: Path
    flag: bool
    deep: bool


def requests_that_name(key: ApiKey, count: int = MANY, *, newest_only: bool = False) -> Iterator[HostileRequest]:
    """Return requests of one API: of the lowest and the highest answered version, each of their arrays wide in turn.

    Args:
        newest_only: only those of the highest version that ask for all that can be asked for.
    """
    api = APIS[key]
    seen = set()
    answered = _ANSWERED[key]
    for version in sorted({answered[-1 if newest_only else 0], answered[-1]}):
        for path in [(), *wide_paths(api.request, version)]:
            for naming in _namings(path):
                if newest_only and not naming.flag:
                    continue
                most = count // (1 + naming.deep * MAX_INNER)
                message = _Maker(key, version, naming, most).message(api.request, path)
                frame = b"".join(encode_request(key, version, 7, "x", message))[4:]
                if frame not in seen:
                    seen.add(frame)
                    how = f"{naming.nth}{' flagged' * naming.flag}{' deep' * naming.deep}"
                    yield HostileRequest(f"{key.name} v{version} {'.'.join(path) or 'everything'} {how}", frame)


def _namings(path: Path) -> Iterator[Naming]:
    for nth in range(max(map(len, NAMES.values()))):
        for flag in (False, True):
            for deep in (False, True):
                yield Naming(nth, path, flag, deep)


class _Maker:
    def __init__(self, key: ApiKey, version: int, naming: Naming, count: int) -> None:
        self._key = key
        self._version = version
        self._naming = naming
        self._count = count
        self._number = 0

    def message(self, cls: type, path: Path) -> Any:
        """Return a message whose array at `path` is wide."""
        fields = [field for field in fields_of(cls) if field.is_in(self._version)]
        made = {field.name: self._field(field, path) for field in fields}
        return cls(**{name: value for name, value in made.items() if value is not DEFAULT})

    def _field(self, field: WireField, path: Path) -> Any:
        wire_type = field.wire.type
        can_be_null = field.is_nullable(self._version)
        if isinstance(wire_type, ArrayType):
            return self._array(field, wire_type.element, path, can_be_null)
        if can_be_null and not self._naming.path:
            return DEFAULT if field.wire.tag is not None else None
        return self._value(field.name, wire_type)

    def _array(self, field: WireField, element: Any, path: Path, can_be_null: bool) -> Any:
        is_on_path = path[:1] == (field.name,)
        if not is_on_path and (not self._naming.deep or not self._naming.path):
            return None if can_be_null else []
        inner = path[1:] if is_on_path else ()
        made = []
        for number in range(self._count if is_on_path and not inner else 1):
            if is_on_path and not inner:
                self._number = number
            is_struct = isinstance(element, StructType)
            made.append(self.message(element.cls, inner) if is_struct else self._value(field.name, element))
        return made

    def _value(self, name: str, wire_type: Any) -> Any:
        match wire_type:
            case StringType():
                names = NAMES_OF.get((self._key, name)) or NAMES[name]
                return names[self._naming.nth % len(names)].format(self._number)
            case StructType():
                return self.message(wire_type.cls, ())
            case Fixed(code="b"):
                return CODES_OF.get((self._key, name), CODES[name])
            case Fixed(code="?"):
                return self._naming.flag
            case Fixed(code="16s"):
                return self._number.to_bytes(16)
            case Fixed():
                is_counted = name in ("index", "partition", "partitions", "partition_index", "partition_indexes")
                return self._number % PARTITIONS if is_counted else NUMBERS.get(name, 0)
        return bytes(16) if isinstance(wire_type, BytesType) else b""
