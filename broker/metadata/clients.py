"""Clients in the cluster's metadata: their quotas (KIP-13, KIP-546) and SCRAM credentials (KIP-554).

`broker/layers/quotas/` applies quotas to requests. Nothing in a credential gives a password away.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

DEFAULT_NAME: Final = ""
"""Stands for every name that has no quota of its own; no client can have a quota by this name."""


class QuotaEntity(NamedTuple):
    """The clients that a quota is for: those of a user, a client id, both together, or an IP address.

    Attributes:
        user: the principal's name, DEFAULT_NAME for the default of all users, or None if the quota asks for no user.
        client_id: likewise, of clients.
        ip: likewise, of addresses; an address goes with neither of the other two.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


ClientQuotas = Mapping[QuotaEntity, Mapping[str, float]]
"""The quotas of each entity by Kafka's names (producer_byte_rate …); no entity is without any."""


class ScramMechanism(enum.IntEnum):
    """The mechanisms, by their codes in the protocol."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredential(NamedTuple):
    """The stored form of a user's password for one SCRAM mechanism.

    Attributes:
        stored_key: the hash of the client key, which a client proves to know.
        server_key: the key with which the broker proves that it knows the user.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Leave out the keys: logs and errors must not hold them."""
        return f"ScramCredential(iterations={self.iterations})"


class ScramUser(NamedTuple):
    """The user and the mechanism of a credential; a user has at most one for each."""

    name: str
    mechanism: ScramMechanism


ScramCredentials = Mapping[ScramUser, ScramCredential]
