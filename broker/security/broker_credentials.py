"""How brokers of one cluster know each other: by a secret that never leaves the process.

It is a SASL mechanism of our own on a listener that is for brokers alone. A client, whatever its password, its ACLs or
the name in its certificate, so never becomes a broker: only this mechanism gives a principal of the type `Broker`.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from purgatorio.broker.routing.request import BROKER
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, Step

NAME: Final = "PURGATORIO-BROKER"


class BrokerCredentials:
    """The credentials of a cluster's brokers; also the mechanism, and its exchange, which has one step and no state.

    Args:
        secret: random bytes, new for each cluster.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, broker_id: int) -> bytes:
        """Return what a broker sends to another one."""
        return b"%d\0%s" % (broker_id, self._proof(str(broker_id).encode()))

    def derived(self, purpose: bytes) -> bytes:
        """Return another secret, which is the same for all brokers and tells nothing of this one."""
        return hmac.digest(self._secret, b"\0" + purpose, "sha256")

    def begin(self) -> BrokerCredentials:
        return self

    def step(self, token: bytes) -> Step:
        """Check a broker's one token.

        Raises:
            AuthenticationFailed: see `SaslExchange.step`.
        """
        broker_id, _, proof = token.partition(b"\0")
        if not hmac.compare_digest(proof, self._proof(broker_id)):
            raise AuthenticationFailed("the proof is not a broker's of this cluster")
        return Step(b"", Identity(broker_id.decode(), type=BROKER))

    def _proof(self, broker_id: bytes) -> bytes:
        return hmac.new(self._secret, broker_id, hashlib.sha256).hexdigest().encode()
