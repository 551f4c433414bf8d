"""A broker logs in at another one, and at what has only its address."""

from __future__ import annotations

import pytest

from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.routing.request import Routes
from purgatorio.broker.security.broker_credentials import NAME, BrokerCredentials, BrokerExchange, BrokerMechanism
from purgatorio.broker.security.mechanism import Identity, SaslMechanism, Step
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.server.broker_login import log_in
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.purgatory.clock import SystemClock

AT = Endpoint("BROKERS", "broker-2.test", 9192)
OURS = BrokerCredentials(b"a secret")


class Credulous:
    """Takes every proof, and answers as far as it can without the secret."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.exchange: BrokerExchange | None = None
        self.took: list[bytes] = []

    def begin(self) -> Credulous:
        self.exchange = BrokerCredentials(b"a guess").exchange(2, AT)
        return self

    def step(self, token: bytes) -> Step:
        self.took.append(token)
        if len(self.took) == 1:
            assert self.exchange is not None
            return self.exchange.step(token)
        return Step(self.answer, Identity("somebody"))


async def logged_in(routes: Routes, mechanism: SaslMechanism) -> None:
    """Log in at a listener that has a mechanism, as broker 1 at broker 2."""
    listener = Listener(routes, ConnectionLimits(), SystemClock(), sasl=SaslSettings(mechanisms={NAME: mechanism}))
    await listener.start("127.0.0.1", 0)
    peer = PeerConnection(SystemClock(), client_id="broker-1")
    await peer.connect(*listener.address)
    try:
        await log_in(peer, NAME, OURS.login(1, 2, AT))
        assert not peer.closed
    finally:
        peer.close()
        await peer.wait_closed()
        await listener.stop(0)


async def test_brokers_with_one_secret_know_each_other(routes: Routes) -> None:
    await logged_in(routes, BrokerMechanism(OURS, 2, lambda: AT))


@pytest.mark.parametrize("answer", [b"", b"v=", b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="])
async def test_what_takes_every_proof_and_has_none_is_not_believed(routes: Routes, answer: bytes) -> None:
    """The connection ends before a request is sent, and what the other side got is of no use to it."""
    mechanism = Credulous(answer)
    with pytest.raises(ConnectionError, match="does not have the cluster's secret: its signature is wrong"):
        await logged_in(routes, mechanism)
    assert len(mechanism.took) == 2
    assert not any(b"a secret" in each or OURS.derived(b"brokers").hex().encode() in each for each in mechanism.took)
