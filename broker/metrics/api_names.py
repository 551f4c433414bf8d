"""The names of APIs in Kafka's metrics."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API: Fetch for FETCH, ListOffsets for LIST_OFFSETS."""
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return "Other"
