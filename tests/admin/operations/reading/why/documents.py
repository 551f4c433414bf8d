"""Small documents of facts, for tests of rules: what a test does not give is absent from the cluster."""

from __future__ import annotations

from typing import Any

from purgatorio.admin.operations.reading.why.conclusions import conclude
from purgatorio.admin.operations.reading.why.facts import no_facts
from purgatorio.admin.operations.reading.why.known import Facts

NOTHING: dict[str, Any] = no_facts(100_000)


def facts(**parts: Any) -> dict[str, Any]:
    """A document with these parts; the names of topics follow from the partitions."""
    names = sorted({each["topic"] for each in parts.get("partitions", ())})
    return {**NOTHING, "topics": names, "topic_count": len(names), **parts}


def partition(topic: str = "orders", number: int = 0, end: int = 0, **more: Any) -> dict[str, Any]:
    """A partition with as many records."""
    offsets = {"log_start_offset": 0, "log_end_offset": end, "high_watermark": end, "last_stable_offset": end}
    placed = {"leader": 1, "offline": False, "isr": [1], "replicas": [{"broker": 1}], "held_by": None}
    return {"topic": topic, "partition": number, "internal": False, **placed, **offsets, **more}


def position(client: str, offset: int, topic: str = "orders", number: int = 0, **more: Any) -> dict[str, Any]:
    """A consumer's fetch, which has waited at this offset for two seconds."""
    times = {"since_ms": 98_000, "last_ms": 99_900, "is_waiting": True, "was_given": False}
    kind = {
        "isolation": "read_uncommitted",
        "min_bytes": 1,
        "available_bytes": 0,
        "held_back_by": None,
        "broker": 1,
        "fetched_count": 1,
    }
    place = {"client": client, "topic": topic, "partition": number, "offset": offset, "first_offset": offset}
    return {**place, **times, **kind, **more}


def start(client: str, timestamp: int, offset: int, topic: str = "orders", number: int = 0) -> dict[str, Any]:
    """A consumer's question for the offset at which it begins."""
    place = {"client": client, "topic": topic, "partition": number}
    return {**place, "timestamp": timestamp, "offset": offset, "at_ms": 97_000}


def member(client: str, *owned: tuple[str, int], member_id: str = "", **more: Any) -> dict[str, Any]:
    """A member that owns these partitions."""
    rows = [{"topic": topic, "partitions": [number], "partition_count": 1} for topic, number in owned]
    return {
        "member_id": member_id or f"{client}-1f",
        "instance_id": None,
        "client": client,
        "host": "127.0.0.1",
        "epoch": 1,
        "owned": rows,
        "waits_for": "",
        "session_left_ms": 9_000,
        "session_timeout_ms": 10_000,
        **more,
    }


def group(name: str, *members: dict[str, Any], offsets: Any = (), **more: Any) -> dict[str, Any]:
    """A stable group."""
    return {
        "id": name,
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "assignor": "range",
        "epoch": 1,
        "member_count": len(members),
        "waits_for": "",
        "coordinator": 1,
        "offset_count": len(offsets),
        "lag": None,
        "members": list(members),
        "offsets": list(offsets),
        "rebalances": [],
        "departed": None,
        **more,
    }


def said(document: dict[str, Any], about: str = "") -> list[str]:
    """The sentences that follow from a document."""
    return [each.says for each in conclude(Facts(document), about)]


def error(client: str, api: str, *errors: str, **more: Any) -> dict[str, Any]:
    """Requests that were answered with errors."""
    times = {"count": 1, "first_ms": 99_000, "last_ms": 99_000}
    return {"client": client, "api": api, "errors": list(errors), "topics": [], "transactional_id": "", **times, **more}


def request(client: str, api: str, *errors: str, **more: Any) -> dict[str, Any]:
    """A request that was answered."""
    row = {"at_ms": 99_500, "broker": 1, "client": client, "api": api, "errors": list(errors), "topics": []}
    return {**row, "ended": "answered", **more}


def broker(number: int, **more: Any) -> dict[str, Any]:
    """A broker that runs."""
    row = {"id": number, "state": "running", "host": "127.0.0.1", "port": 9092, "paused": False, "cut_off_from": []}
    return {**row, "follower": {"held": False}, **more}
