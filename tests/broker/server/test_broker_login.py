"""A broker logs in at another one, and at what has only its address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.routing.request import Routes
from purgatorio.broker.security.broker_credentials import NAME, BrokerCredentials, BrokerExchange, BrokerMechanism
from purgatorio.broker.security.mechanism import Identity, SaslMechanism, SaslStep
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.server.broker_login import log_in
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.server.shared_services import Login
from purgatorio.broker.time.system_clock import SystemClock
from tests.broker.server.listeners import listener_of, listener_parts

AT = Endpoint("BROKERS", "broker-2.test", 9192)
OURS = BrokerCredentials(b"a secret")
SETTINGS = SaslSettings(mechanisms={NAME: BrokerMechanism(OURS, 2, lambda: AT)})


class Credulous:
    """Takes every proof, and answers as far as it can without the secret."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.exchange: BrokerExchange | None = None
        self.took: list[bytes] = []

    def begin(self) -> Credulous:
        self.exchange = BrokerCredentials(b"a guess").exchange(2, AT)
        return self

    def step(self, token: bytes) -> SaslStep:
        self.took.append(token)
        if len(self.took) == 1:
            assert self.exchange is not None
            return self.exchange.step(token)
        return SaslStep(self.answer, Identity("somebody"))


async def logged_in(routes: Routes, mechanism: SaslMechanism) -> None:
    """Log in at a listener that has a mechanism, as broker 1 at broker 2."""
    login = Login(sasl=SaslSettings(mechanisms={NAME: mechanism}))
    listener = listener_of(routes, listener_parts(ConnectionLimits(), SystemClock()), login=login)
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


@pytest.fixture
async def impostor() -> AsyncIterator[Callable[[bytes], Awaitable[PeerConnection]]]:
    """Connects to what answers the first message of a login with these bytes, and nothing more."""
    peers: list[PeerConnection] = []
    servers: list[asyncio.Server] = []

    async def connect(answer: bytes) -> PeerConnection:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(answer)
            await reader.read()
            writer.close()

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        peers.append(PeerConnection(SystemClock(), client_id="broker-1"))
        await peers[-1].connect(*servers[-1].sockets[0].getsockname())
        return peers[-1]

    yield connect
    for peer in peers:
        peer.close()
        await peer.wait_closed()
    for server in servers:
        server.close()


async def test_what_has_not_proved_itself_answers_no_more_than_a_login_needs(
    impostor: Callable[[bytes], Awaitable[PeerConnection]],
) -> None:
    """It told of an answer of 100 MB, of millions of mechanisms, which took memory and held the event loop."""
    peer = await impostor((1024 * 1024).to_bytes(4))
    with pytest.raises(ConnectionError, match="sent an invalid answer"):
        await log_in(peer, NAME, OURS.login(1, 2, AT))
    assert peer.closed


async def test_large_answers_are_taken_from_a_broker_that_has_logged_in(routes: Routes) -> None:
    listener = listener_of(routes, listener_parts(ConnectionLimits(), SystemClock()), login=Login(sasl=SETTINGS))
    await listener.start("127.0.0.1", 0)
    peer = PeerConnection(SystemClock(), client_id="broker-1", max_response_bytes=12_345_678)
    await peer.connect(*listener.address)
    await log_in(peer, NAME, OURS.login(1, 2, AT))
    assert peer.max_response_bytes == 12_345_678
    peer.close()
    await peer.wait_closed()
    await listener.stop(0)


async def test_a_login_that_is_cancelled_leaves_no_connection(
    impostor: Callable[[bytes], Awaitable[PeerConnection]],
) -> None:
    """A follower that stops while it logs in left one at a broker that did not answer."""
    peer = await impostor(b"")
    login = asyncio.create_task(log_in(peer, NAME, OURS.login(1, 2, AT)))
    while not peer.outstanding:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    login.cancel()
    with pytest.raises(asyncio.CancelledError):
        await login
    assert peer.closed
