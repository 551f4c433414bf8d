"""Client quotas as the cluster's metadata holds them: of which clients, and how much (KIP-13, KIP-546).

What they mean for requests is `broker.quota`'s.
"""

from __future__ import annotations

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
