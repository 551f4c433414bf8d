"""Settings with which clients work quickly against a cluster of a test."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

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

_DOTTED_BACKOFF: Final = {
    "retry.backoff.ms": RETRY_MS,
    "retry.backoff.max.ms": MAX_RETRY_MS,
    "reconnect.backoff.ms": RETRY_MS,
    "reconnect.backoff.max.ms": MAX_RETRY_MS,
}
_DOTTED_CONSUMER: Final = {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": GIVE_UP_MS}


class _Library(NamedTuple):
    """The names that one client library has for the settings that tests want.

    Attributes:
        addresses: the setting with the brokers' addresses.
        common: for every role.
        roles: for one role.
    """

    addresses: str
    common: Mapping[str, Any]
    roles: Mapping[str, Mapping[str, Any]]


_LIBRARIES: Final[Mapping[str, _Library]] = {
    "confluent": _Library(
        "bootstrap.servers",
        _DOTTED_BACKOFF,
        {"consumer": _DOTTED_CONSUMER, "producer": {"message.timeout.ms": GIVE_UP_MS}},
    ),
    "aiokafka": _Library(
        "bootstrap_servers",
        {"retry_backoff_ms": RETRY_MS},
        {"consumer": {"heartbeat_interval_ms": HEARTBEAT_MS}, "producer": {"request_timeout_ms": GIVE_UP_MS}},
    ),
    "kafka-python": _Library(
        "bootstrap_servers",
        {"retry_backoff_ms": RETRY_MS, "reconnect_backoff_ms": RETRY_MS, "reconnect_backoff_max_ms": MAX_RETRY_MS},
        {
            "consumer": {"heartbeat_interval_ms": HEARTBEAT_MS},
            "producer": {"request_timeout_ms": GIVE_UP_MS // 2, "delivery_timeout_ms": GIVE_UP_MS},
        },
    ),
    "faststream": _Library(
        "bootstrap_servers",
        {"retry_backoff_ms": RETRY_MS, "request_timeout_ms": GIVE_UP_MS},
        {"consumer": {"heartbeat_interval_ms": HEARTBEAT_MS}},
    ),
    "java": _Library(
        "bootstrap.servers",
        _DOTTED_BACKOFF,
        {
            "consumer": _DOTTED_CONSUMER,
            "producer": {
                "delivery.timeout.ms": GIVE_UP_MS,
                "request.timeout.ms": GIVE_UP_MS // 2,
                "max.block.ms": GIVE_UP_MS,
            },
        },
    ),
}
Library: TypeAlias = Literal["confluent", "aiokafka", "kafka-python", "faststream", "java"]
Role: TypeAlias = Literal["consumer", "producer", "admin"]


def client_config(
    library: str, role: str | None, bootstrap: str, security: ClientSecurity | None = None, user: str | None = None
) -> dict[str, Any]:
    """Return a client's settings, as `Kafka.client_config` describes them."""
    _known(library, get_args(Library), "client library", "; to other clients give `kafka.bootstrap`")
    if role is not None:
        _known(role, get_args(Role), "role")
    named = _LIBRARIES[library]
    of_role = named.roles.get(role or "", {})
    if library == "faststream" and role == "consumer":
        return dict(of_role)  # of a subscriber, whose broker has the rest
    secure = (security or ClientSecurity()).client_settings(library, user)
    addresses = bootstrap.split(",") if library == "faststream" else bootstrap
    settings = {named.addresses: addresses, **named.common, **of_role, **secure}
    if library == "java":
        return {name: str(value) for name, value in settings.items()}
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


def _known(value: str, known: tuple[str, ...], what: str, otherwise: str = "") -> None:
    if value not in known:
        near = get_close_matches(value, known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}{otherwise}"
        raise ValueError(f"{value!r} is not a {what}{hint}")
