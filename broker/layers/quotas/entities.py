"""Which quota a client has: eight ways to name it, in Kafka's order of precedence (KIP-55)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from purgatorio.broker.layers.quotas.naming import QuotaKey
from purgatorio.broker.metadata.clients import DEFAULT_NAME, ClientQuotas, QuotaEntity


class QuotaClient(NamedTuple):
    """The clients that share one rate: those of a user and a client id; "" stands for all users, or all client ids."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """A client's limit.

    Attributes:
        value: in the quota's unit.
        client: who shares the limit.
        rule: the entity by whose quota it is: "default client".
    """

    value: float
    client: QuotaClient
    rule: str


class _Level(NamedTuple):
    """One way to name a client; None: the entity asks for no user or client id."""

    default_user: bool | None
    default_client_id: bool | None


_PRECEDENCE: Final = (
    _Level(False, False),
    _Level(False, True),
    _Level(False, None),
    _Level(True, False),
    _Level(True, True),
    _Level(True, None),
    _Level(None, False),
    _Level(None, True),
)


class QuotaTable:
    """The limits of all clients by one quota.

    Args:
        quotas: all quotas of the cluster.
        key: the one.
    """

    __slots__ = ("_levels", "_limits")

    def __init__(self, quotas: ClientQuotas, key: QuotaKey) -> None:
        self._limits: Mapping[QuotaEntity, float] = {
            entity: values[key] for entity, values in quotas.items() if entity.ip is None and key in values
        }
        # In one expression: thousands of entities are looked at after each change of one.
        levels = {
            (
                user if user is None else user == DEFAULT_NAME,
                client_id if client_id is None else client_id == DEFAULT_NAME,
            )
            for user, client_id, _ in self._limits
        }
        self._levels = tuple(level for level in _PRECEDENCE if level in levels)

    def __bool__(self) -> bool:
        return bool(self._levels)

    def find(self, user: str, client_id: str) -> Limit | None:
        """Return the limit of a client, or None if it has none.

        A user's limit is shared by all its clients; a default is one limit for each name.
        """
        for level in self._levels:
            entity = QuotaEntity(_name(level.default_user, user), _name(level.default_client_id, client_id))
            value = self._limits.get(entity)
            if value is not None:
                client = QuotaClient(
                    "" if level.default_user is None else user, "" if level.default_client_id is None else client_id
                )
                return Limit(value, client, describe(entity))
        return None


def ip_limits(quotas: ClientQuotas) -> dict[str, float]:
    """Return the connections per second of each IP address; DEFAULT_NAME stands for all others."""
    key = QuotaKey.CONNECTION_CREATION_RATE
    return {entity.ip: values[key] for entity, values in quotas.items() if entity.ip is not None and key in values}


def describe(entity: QuotaEntity) -> str:
    """Name an entity in words: "user `alice`, default client"."""
    named = []
    for kind, name in (("user", entity.user), ("client", entity.client_id), ("IP", entity.ip)):
        if name is not None:
            named.append(f"default {kind}" if name == DEFAULT_NAME else f"{kind} `{name}`")
    return ", ".join(named)


def _name(is_default: bool | None, name: str) -> str | None:
    return None if is_default is None else DEFAULT_NAME if is_default else name
