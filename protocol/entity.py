"""What a field of a message names: the tags of `purgatorio.protocol.message`'s declarations."""

from __future__ import annotations

import enum


class Entity(enum.Enum):
    """What the value of a field is the name of, or each value of an array.

    The first five are the entity types of Kafka's message schemas, whose fields are tagged with them. The others are
    what answers repeat of their requests besides.
    """

    BROKER_ID = enum.auto()
    GROUP_ID = enum.auto()
    PRODUCER_ID = enum.auto()
    TOPIC_NAME = enum.auto()
    TRANSACTIONAL_ID = enum.auto()

    TOPIC_ID = enum.auto()
    PARTITION = enum.auto()
    """A partition's index, which means something beside its topic only."""
    COORDINATOR_KEY = enum.auto()
    """A group or a transactional id, whichever the request's `key_type` says."""
    CONFIG_RESOURCE_TYPE = enum.auto()
    CONFIG_RESOURCE = enum.auto()
    SCRAM_USER = enum.auto()
