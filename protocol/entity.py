"""Entity types: the tags that declarations of `purgatorio.protocol.message` give to fields with names and ids."""

from __future__ import annotations

import enum


class Entity(enum.Enum):
    """The type of the entity that a field, or each element of an array, names.

    The first five are the entity types of Kafka's message schemas, whose fields are tagged with them. The others tag
    further fields that responses repeat from their requests.
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
