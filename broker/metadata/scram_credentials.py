"""SCRAM credentials as the cluster's metadata holds them (RFC 5802, KIP-554): nothing here gives a password away."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class ScramMechanism(enum.IntEnum):
    """The mechanisms, by their codes in the protocol."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredential(NamedTuple):
    """What a broker keeps of a user's password for one mechanism.

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
    """Whose credential, and for which mechanism; a user has at most one for each."""

    name: str
    mechanism: ScramMechanism


ScramCredentials = Mapping[ScramUser, ScramCredential]
