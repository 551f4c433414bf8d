"""The rules for topic names."""

from __future__ import annotations

import re
from typing import Final

MAX_TOPIC_NAME_LENGTH: Final = 249
"""Kafka's limit: it keeps a partition in a directory `<topic>-<partition>`, whose name has at most 255 characters."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The internal topic that keeps consumer groups and their offsets."""
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
"""The internal topic that keeps transactional ids and their transactions."""
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
"""The internal topic that keeps how far share groups have come (KIP-932)."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of Kafka's controllers, which looks like a topic to some requests; no topic can have its name."""
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
"""Kafka's internal topics, which hold state of the coordinators."""

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """Return the reason why a topic name is invalid, as one sentence; None if it is valid."""
    if not name:
        return "A topic name must not be empty."
    if name in {".", ".."}:
        return "A topic cannot be called . or .. alone."
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"A topic name has at most {MAX_TOPIC_NAME_LENGTH} characters; this one has {len(name)}."
    if not _ALLOWED.fullmatch(name):
        return f"A topic name consists of ASCII letters, digits, dots, underscores and hyphens; {name!r} does not."
    return None


def collision_key(name: str) -> str:
    """Return a key that is equal for names that differ only in `.` and `_`; no two topics may have the same key.

    Kafka's metrics write `.` as `_`, so such names would collide there.
    """
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether this is one of Kafka's internal topics."""
    return name in INTERNAL_TOPICS
