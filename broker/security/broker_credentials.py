"""How brokers of one cluster know each other: each proves to the other that it has the cluster's secret.

It is SCRAM-SHA-256 with the secret as the password, on a listener that is for brokers alone. The name that logs in says
which broker connects to which, and where: so both ends mean the same, and what a process hears at a port that a dead
broker had is of no use at another broker, nor at that broker elsewhere, nor later, since both nonces are new each time.

A client, whatever its password, its ACLs or the name in its certificate, so never becomes a broker: only this mechanism
gives a principal of the type `Broker`.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

from purgatorio.broker.metadata.clients import ScramCredential, ScramMechanism
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.routing.request import BROKER
from purgatorio.broker.security.mechanism import Identity, SaslStep
from purgatorio.broker.security.scram import MIN_ITERATIONS, ScramExchange, ScramLogin, credential_of, new_nonce, salted

NAME: Final = "PURGATORIO-SCRAM-SHA-256"
"""The mechanism. Before it there was PURGATORIO-BROKER, a token that stayed the same, which nothing takes any more."""
_HASH: Final = ScramMechanism.SCRAM_SHA_256
_SALT: Final = b"brokers of one cluster"
"""The same everywhere, so that a process derives the keys once: secrets are random, and have no dictionary."""


class _Keys(NamedTuple):
    """The keys that a process derives from the secret.

    Attributes:
        salted: shows that this broker has the secret.
        credential: recognizes others that have it.
    """

    salted: bytes
    credential: ScramCredential


class BrokerCredentials:
    """The credentials of a cluster's brokers.

    Args:
        secret: random bytes, new for each cluster.
        random_bytes: returns this many unpredictable bytes, for nonces.
    """

    def __init__(self, secret: bytes, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._secret = secret
        self._random_bytes = random_bytes

    @cached_property
    def _keys(self) -> _Keys:
        password = salted(_HASH, self.derived(b"brokers").hex(), _SALT, MIN_ITERATIONS)
        return _Keys(password, credential_of(_HASH, _SALT, password, MIN_ITERATIONS))

    def derived(self, purpose: bytes) -> bytes:
        """Return another secret, which is the same for all brokers and reveals nothing about this one."""
        return hmac.digest(self._secret, b"\0" + purpose, "sha256")

    def login(self, broker_id: int, other_id: int, endpoint: Endpoint) -> ScramLogin:
        """Return a login of a broker at another one, whose address this is."""
        name, keys = f"broker-{broker_id}{_where(other_id, endpoint)}", self._keys
        return ScramLogin(_HASH, name, _SALT, MIN_ITERATIONS, keys.salted, new_nonce(self._random_bytes))

    def exchange(self, broker_id: int, endpoint: Endpoint) -> BrokerExchange:
        """Return the side of the broker that another one connects to, at this address."""
        return BrokerExchange(self._keys.credential, _where(broker_id, endpoint), new_nonce(self._random_bytes))


class BrokerMechanism:
    """The mechanism, as one broker offers it to the others.

    Args:
        endpoint: returns the address that the broker has registered for them.
    """

    def __init__(self, credentials: BrokerCredentials, broker_id: int, endpoint: Callable[[], Endpoint]) -> None:
        self._credentials, self._broker_id, self._endpoint = credentials, broker_id, endpoint

    def begin(self) -> BrokerExchange:
        return self._credentials.exchange(self._broker_id, self._endpoint())


class BrokerExchange:
    """One login of another broker.

    Args:
        credential: of all brokers.
        where: how the name of one ends that means this broker.
        nonce: this broker's part of the nonce.
    """

    def __init__(self, credential: ScramCredential, where: str, nonce: str) -> None:
        self._credential, self._where = credential, where
        self._scram = ScramExchange(_HASH, self._find, nonce)

    def step(self, token: bytes) -> SaslStep:
        """Answer the next message; raises `AuthenticationFailed` as `SaslExchange.step` does."""
        step = self._scram.step(token)
        if step.identity is None:
            return step
        return SaslStep(step.token, Identity(self._claimed(step.identity.name), type=BROKER))

    def _find(self, name: str) -> tuple[ScramCredential, bool]:
        claimed = self._claimed(name)
        means_this = claimed.isdecimal() and claimed.isascii() and name == f"broker-{claimed}{self._where}"
        return self._credential, means_this

    def _claimed(self, name: str) -> str:
        return name.removeprefix("broker-").removesuffix(self._where)


def _where(broker_id: int, endpoint: Endpoint) -> str:
    return f"-to-{broker_id}-at-{endpoint.host}:{endpoint.port}"
