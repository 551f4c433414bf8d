"""Subscriptions and assignments: the bytes that consumers put into JoinGroup and SyncGroup.

In classic groups the consumers assign partitions among themselves, and the broker passes the bytes on. It reads them
only to know the subscribed topics, and to let consumers of both group protocols into one group (KIP-848).

Versions of both structs: 1 adds owned partitions (KIP-429), 2 the generation that owned them (KIP-792), 3 the rack
(KIP-881). A newer version may only add fields at the end, and is read as version 3.
"""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    int32,
    nullable_binary,
    nullable_string,
    string,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.versioned import VersionedCodec

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members send these structs."""

MAX_ELEMENTS: Final = 10_000
"""The most topics and partitions of a struct, together: a member sends the bytes, and a topic takes 1 µs to decode."""


@wire_struct
class TopicPartitions:
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@wire_struct
class ConsumerProtocolSubscription(Message):
    """The topics that a member subscribes to, and the partitions that it owned in a generation; -1 is none."""

    topics: list[str] = array(STRING)
    user_data: Buffer | None = nullable_binary(None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, since=1)
    generation_id: int = int32(-1, since=2)
    rack_id: str | None = nullable_string(None, since=3, null_since=3)


@wire_struct
class ConsumerProtocolAssignment(Message):
    """The partitions that the leader of the group assigns to a member."""

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: Buffer | None = nullable_binary(None)


SUBSCRIPTION: Final = VersionedCodec(
    ConsumerProtocolSubscription, range(4), max_elements=MAX_ELEMENTS, newer_as_last=True
)
"""The codec of a member's metadata in JoinGroup; `versioned.version_of` returns the version of the bytes."""

ASSIGNMENT: Final = VersionedCodec(ConsumerProtocolAssignment, range(4), max_elements=MAX_ELEMENTS, newer_as_last=True)
"""The codec of a member's assignment in SyncGroup; a member may read the version of its subscription."""
