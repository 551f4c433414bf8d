"""A cluster whose clients speak TLS, with the brokers on a listener of their own."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.security.broker_credentials import NAME, BrokerCredentials
from purgatorio.broker.server.broker_login import log_in
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchRequest, ReplicaState
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.certificates import Certificates


@asynccontextmanager
async def running(certificates: Certificates, **settings: str) -> AsyncIterator[Cluster]:
    given = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.location": str(certificates.authority),
        **settings,
    }
    async with Cluster(load_cluster_config(settings=given), admin=False) as cluster:
        yield cluster


def trusting(certificates: Certificates, *, alice: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if alice:
        context.load_cert_chain(str(certificates.alice))
    return context


async def test_a_client_with_tls_produces_to_all_replicas_and_consumes(certificates: Certificates) -> None:
    async with running(certificates) as cluster:
        client = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": trusting(certificates),
        }
        async with AIOKafkaProducer(**client, acks="all") as producer:
            await producer.send_and_wait("orders", b"x" * 100_000)
        async with AIOKafkaConsumer("orders", **client, auto_offset_reset="earliest") as consumer:
            assert (await consumer.getone()).value == b"x" * 100_000


async def test_a_certificate_gives_a_client_its_name(certificates: Certificates) -> None:
    rules = {"listener.name.ssl.ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+),.*$/$1/U,DEFAULT"}
    async with running(certificates, **{"ssl.client.auth": "requested"}, **rules) as cluster:
        for alice, principal in ((True, "User:ALICE"), (False, "User:ANONYMOUS")):
            context = trusting(certificates, alice=alice)
            client = {"bootstrap_servers": cluster.bootstrap, "security_protocol": "SSL", "ssl_context": context}
            async with AIOKafkaProducer(**client, client_id=principal):
                named = {
                    str(connection.session.principal)
                    for broker in cluster.brokers
                    for connection in broker.listeners["SSL"]._connections
                    if connection.session.client_id == principal
                }
                assert named == {principal}


async def test_a_client_cannot_pose_as_a_broker(certificates: Certificates) -> None:
    """It is refused as a follower on the clients' listener, and has no credentials for that of the brokers."""
    async with running(certificates, listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0") as cluster:
        broker = cluster.brokers[0]
        peer = PeerConnection(SystemClock(), client_id="impostor")
        await peer.connect(*broker.listeners["PLAINTEXT"].address)
        for fetch in (
            (FetchRequest(replica_id=2, topics=[]), 12),
            (FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=1), topics=[]), 16),
        ):
            response = await peer.request(ApiKey.FETCH, fetch[1], fetch[0], timeout_ms=10_000)
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        topics = [WritableTxnMarkerTopic(name="orders", partition_indexes=[0])]
        forged = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=0, topics=topics)])
        response = await peer.request(ApiKey.WRITE_TXN_MARKERS, 1, forged, timeout_ms=10_000)
        (written,) = response.markers[0].topics[0].partitions
        assert written.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        peer.close()
        peer = PeerConnection(SystemClock(), client_id="impostor")
        endpoint = Endpoint(BROKERS, *broker.listeners[BROKERS].address)
        await peer.connect(endpoint.host, endpoint.port)
        with pytest.raises(ConnectionError, match="SASL_AUTHENTICATION_FAILED"):
            await log_in(peer, NAME, BrokerCredentials(b"guessed").login(2, 1, endpoint))
        await peer.wait_closed()
