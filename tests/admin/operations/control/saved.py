"""A small snapshot with something of all that a snapshot may have."""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.cluster.snapshots import SavedPartition, Snapshot
from purgatorio.broker.log.segment import BATCH_OVERHEAD_BYTES
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import (
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from purgatorio.broker.metadata.clients import QuotaEntity, ScramMechanism, ScramUser
from purgatorio.broker.metadata.image import BrokerIncarnation, PartitionState, Topic
from purgatorio.broker.security.scram import new_credential
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.batches import batches_of

BATCHES = tuple(build_batch([Record(offset, 5, b"k", b"v")], base_offset=offset) for offset in (3, 4))
ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 0)


def snapshot(batches: tuple[bytes, ...] = BATCHES) -> Snapshot:
    """Return it; the log of `ORDERS` has these batches."""
    in_sync = BrokerIncarnation(1, 11), BrokerIncarnation(2, 12)
    state = PartitionState(1, 2, (1, 2), in_sync[:1], 3, in_sync[1:])
    read = AclBinding(
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        PermissionType.ALLOW,
    )
    user = ScramUser("alice", ScramMechanism.SCRAM_SHA_256)
    return Snapshot(
        {
            "orders": Topic("orders", bytes(range(16)), (state,), {"retention.ms": "1"}),
            "bills": Topic("bills", bytes(range(1, 17)), (PartitionState(2, 0, (2,), in_sync[1:]),)),
        },
        {
            ORDERS: SavedPartition(3, 3 + len(batches), batches, len(batches) * BATCH_OVERHEAD_BYTES),
            BILLS: SavedPartition(0, 0, ()),
        },
        {"": {"log.cleaner.backoff.ms": "2000"}},
        77,
        {
            "client_quotas": {QuotaEntity(user="alice"): {"producer_byte_rate": 1000.0}},
            "acls": {read: None},
            "scram_credentials": {user: new_credential(user.mechanism, "secret", b"salt")},
            "group_configs": {"jobs": {"share.auto.offset.reset": "earliest"}},
        },
    )


def in_batches(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot of a cluster as it is read from a folder: each part of a log is one batch."""
    logs = {tp: replace(saved, batches=tuple(batches_of(saved.batches))) for tp, saved in snapshot.logs.items()}
    return replace(snapshot, logs=logs)
