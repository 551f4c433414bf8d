"""What a topic may be called."""

from __future__ import annotations

import re
from typing import Final

MAX_TOPIC_NAME_LENGTH: Final = 249
"""Kafka keeps a partition in a directory `<topic>-<partition>`, and file names end at 255 characters."""

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers keep their own state in."""

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic name, as one sentence; None if nothing is."""
    if not name:
        return "A topic name must not be empty."
    if name in {".", ".."}:
        return "A topic cannot be called '.' or '..'."
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"A topic name has at most {MAX_TOPIC_NAME_LENGTH} characters; this one has {len(name)}."
    if not _ALLOWED.fullmatch(name):
        return f"A topic name consists of ASCII letters, digits, '.', '_' and '-'; {name!r} does not."
    return None


def collision_key(name: str) -> str:
    """Equal for names that Kafka's metrics cannot tell apart: they write `.` as `_`. No two topics may share it."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether brokers keep their own state in this topic."""
    return name in INTERNAL_TOPICS
