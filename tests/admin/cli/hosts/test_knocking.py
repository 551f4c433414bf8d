"""A broker that is about to join a cluster on several hosts: real handshakes with listeners for brokers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from purgatorio.admin.cli.hosts.knocking import NotAccepted, knock
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.metadata.image import BrokerRegistration, ClusterImage, Endpoint
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.broker.security.brokers_tls import TlsRefused, known_broker
from purgatorio.broker.security.tls import TlsError, TlsSettings, client_context, server_context
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.server.shared_services import Login
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.routing.harness import routes_of
from tests.broker.server.listeners import listener_of, listener_parts
from tests.certificates import LAST_YEAR, BrokerAuthority
from tests.logs import capture_logs

Start = Callable[..., Awaitable[Endpoint]]


@pytest.fixture
def authority(tmp_path: Path) -> BrokerAuthority:
    return BrokerAuthority(tmp_path / "brokers")


def answered(ctx: RequestContext, request: Any, reply: Reply) -> None:
    assert ctx.session.principal.is_broker
    reply(ApiVersionsResponse())


def tls(keystore: Path, authority: BrokerAuthority) -> TlsSettings:
    return TlsSettings(
        keystore_location=str(keystore), truststore_location=str(authority.certificate), client_auth="required"
    )


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts the listener for brokers of one that lives; without settings it speaks plain text."""
    started: list[Listener] = []

    async def start(settings: TlsSettings | None) -> Endpoint:
        login = Login() if settings is None else Login(tls=lambda: server_context(settings), identify=known_broker)
        listener = listener_of(
            routes_of({ApiKey.API_VERSIONS: Route(answered, 0, 4, lambda *_: None)}),
            listener_parts(ConnectionLimits(), SystemClock()),
            name=BROKERS,
            login=login,
            goes_first=True,
        )
        started.append(listener)
        await listener.start("127.0.0.1", 0)
        return Endpoint(BROKERS, *listener.address)

    yield start
    for listener in started:
        listener.stop_accepting()
        await listener.drain(0)


def image(*endpoints: Endpoint) -> ClusterImage:
    brokers = {number: BrokerRegistration(number, number, (each,)) for number, each in enumerate(endpoints, start=1)}
    return ClusterImage(version=0, cluster_id="", brokers=brokers)


def joining(keystore: Path, authority: BrokerAuthority) -> BrokerConfig:
    files = {"ssl_keystore_location": str(keystore), "ssl_truststore_location": str(authority.certificate)}
    return BrokerConfig(
        broker_id=9,
        cluster_port=0,
        security_inter_broker_protocol="SSL",
        listener_name={f"brokers_{name}": value for name, value in files.items()},
    )


async def test_a_broker_is_let_in_as_soon_as_one_of_the_living_accepts_it(
    start: Start, authority: BrokerAuthority, tmp_path: Path
) -> None:
    other = BrokerAuthority(tmp_path / "others")
    stranger = await start(tls(other.issue("1"), other))
    friend = await start(tls(authority.issue("2"), authority))
    gone = Endpoint(BROKERS, "127.0.0.1", 1)
    config = joining(authority.issue("9"), authority)
    for living in ((friend,), (stranger, friend), (gone,), (gone, friend), ()):
        await knock(config, image(*living), SystemClock())


async def test_a_broker_whom_nobody_accepts_is_told_why(
    start: Start, authority: BrokerAuthority, tmp_path: Path
) -> None:
    own = joining(authority.issue("9"), authority)
    other = BrokerAuthority(tmp_path / "others")
    for living, why in (
        (tls(other.issue("1"), other), "shows a certificate that this broker refuses: self-signed certificate in"),
        (
            tls(authority.issue("expired", not_after=LAST_YEAR), authority),
            "shows a certificate that this broker refuses: certificate has expired; its",
        ),
        (tls(authority.issue("1"), other), "closed the connection: it refuses this broker's certificate, or does not"),
        (None, "closed the connection: it refuses this broker's certificate, or does not speak TLS: set sec"),
    ):
        endpoint = await start(living)
        with pytest.raises(NotAccepted) as refused:
            await knock(own, image(endpoint), SystemClock())
        assert f"broker 9 cannot join the cluster: broker 1 at 127.0.0.1:{endpoint.port} {why}" in str(refused.value)
    with pytest.raises(TlsError, match="certificate has expired"):
        await knock(joining(authority.issue("old", not_after=LAST_YEAR), authority), image(), SystemClock())


@pytest.mark.parametrize(
    ("shows", "why"),
    [
        (None, "the client does not speak TLS"),
        ("nothing", "the client shows no certificate"),
        ("of others", "unable to get local issuer certificate"),
        ("expired", "certificate has expired"),
    ],
)
async def test_what_the_listener_for_brokers_refuses_it_says_with_what_to_set(
    start: Start, authority: BrokerAuthority, tmp_path: Path, shows: str | None, why: str
) -> None:
    endpoint = await start(tls(authority.issue("1"), authority))
    other = BrokerAuthority(tmp_path / "others")
    keystores = {"of others": other.issue("9"), "expired": authority.issue("9", not_after=LAST_YEAR)}
    context: ssl.SSLContext | None = None
    if shows == "nothing":
        context = ssl.create_default_context(cafile=str(authority.certificate))
    elif shows is not None:
        context = client_context(tls(keystores[shows], authority))
    peer = PeerConnection(SystemClock(), client_id="broker-9")
    with capture_logs() as logs:
        refused = await asyncio.gather(asked(peer, endpoint, context), return_exceptions=True)
        peer.close()
        await peer.wait_closed()
    assert isinstance(refused[0], ConnectionError if context is None else TlsRefused)
    (detail,) = [each["detail"] for each in logs if each["event"] == "connection refused"]
    assert why in detail
    assert "; set security.inter.broker.protocol and listener.name.brokers.ssl." in detail


async def asked(peer: PeerConnection, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
    await peer.connect(endpoint.host, endpoint.port, tls=context)
    await peer.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=10_000)
