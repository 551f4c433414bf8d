"""Settings with which clients work quickly against a cluster of a test."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

from purgatorio.testing.client_security import ClientSecurity

HEARTBEAT_MS: Final = 100
"""A member of a group learns of a rebalance by its heartbeat, every 3 s by default: so long a second member waits."""
RETRY_MS: Final = 10
"""The pause before a client asks again, 100 ms by default: a new leader is there sooner."""
MAX_RETRY_MS: Final = 100
"""The longest pause; by default some clients come to wait seconds for a broker that was down."""

GIVE_UP_MS: Final = 10_000
"""How long a client waits at its end for a cluster that cannot answer any more. By default a producer keeps its
``with`` block open until its records have failed: 40 s (aiokafka, acks=all), two minutes (kafka-python) or five
(librdkafka). librdkafka's consumer tries to leave its group for 45 s, its session timeout."""

_UNDERSCORED: Final = {"retry_backoff_ms": RETRY_MS}
_ADDRESSES: Final = {
    "confluent": "bootstrap.servers",
    "aiokafka": "bootstrap_servers",
    "kafka-python": "bootstrap_servers",
}
_COMMON: Final[Mapping[str, Mapping[str, Any]]] = {
    "confluent": {
        "retry.backoff.ms": RETRY_MS,
        "retry.backoff.max.ms": MAX_RETRY_MS,
        "reconnect.backoff.ms": RETRY_MS,
        "reconnect.backoff.max.ms": MAX_RETRY_MS,
    },
    "aiokafka": _UNDERSCORED,
    "kafka-python": {**_UNDERSCORED, "reconnect_backoff_ms": RETRY_MS, "reconnect_backoff_max_ms": MAX_RETRY_MS},
}
_CONSUMERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "confluent": {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": GIVE_UP_MS},
    "aiokafka": {"heartbeat_interval_ms": HEARTBEAT_MS},
    "kafka-python": {"heartbeat_interval_ms": HEARTBEAT_MS},
}
_PRODUCERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "confluent": {"message.timeout.ms": GIVE_UP_MS},
    "aiokafka": {"request_timeout_ms": GIVE_UP_MS},
    "kafka-python": {"request_timeout_ms": GIVE_UP_MS // 2, "delivery_timeout_ms": GIVE_UP_MS},
}
ROLES: Final = ("consumer", "producer", "admin")


def client_config(
    library: str, role: str | None, bootstrap: str, security: ClientSecurity | None = None, user: str | None = None
) -> dict[str, Any]:
    """See `Kafka.client_config`."""
    _known(library, tuple(_COMMON), "client library")
    if role is not None:
        _known(role, ROLES, "role")
    of_role = {"consumer": _CONSUMERS, "producer": _PRODUCERS}.get(role or "", {}).get(library, {})
    secure = (security or ClientSecurity()).client_settings(library, user)
    settings = {_ADDRESSES[library]: bootstrap, **_COMMON[library], **of_role, **secure}
    if library == "kafka-python" and role == "producer" and not _kafka_python_has("delivery_timeout_ms"):
        del settings["delivery_timeout_ms"]
    return settings


def _kafka_python_has(setting: str) -> bool:
    """Return whether the installed kafka-python has a producer setting; 2.0 lacks some, and refuses them."""
    try:
        producer = import_module("kafka").KafkaProducer
    except ImportError:
        return True
    return setting in producer.DEFAULT_CONFIG


def _known(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        near = get_close_matches(value, known, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}"
        raise ValueError(f"{value!r} is not a {what}{hint}")
