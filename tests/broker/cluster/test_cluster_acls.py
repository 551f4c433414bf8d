"""A cluster with an authorizer, as clients of the protocol see it; brokers replicate without any ACL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import TopicAuthorizationFailedError

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.error_log import ErrorLog

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


@asynccontextmanager
async def running(**settings: str) -> AsyncIterator[Cluster]:
    given = {"port": "0", "authorizer.class.name": "StandardAuthorizer", **settings}
    async with Cluster(load_cluster_config(settings=given), admin=False) as cluster:
        yield cluster


def anonymous(operation: AclOperation, kind: ResourceType, name: str) -> AclBinding:
    allowed = PermissionType.ALLOW
    return AclBinding(kind, name, PatternType.LITERAL, "User:ANONYMOUS", "127.0.0.1", operation, allowed)


async def put(cluster: Cluster, *acls: AclBinding) -> None:
    """Put these ACLs in place of all others, at all brokers."""
    cluster.brokers[0].store.submit(lambda image: (image.with_acls(acls), None), lambda _: None)
    while any(list(broker.image.acls) != list(acls) for broker in cluster.brokers):  # noqa: ASYNC110 - within turns
        await asyncio.sleep(0)  # each broker has its image a few turns of the loop later


async def peer_of(cluster: Cluster) -> PeerConnection:
    peer = PeerConnection(SystemClock(), client_id="till")
    await peer.connect(*cluster.brokers[0].listeners["PLAINTEXT"].address)
    return peer


async def ask(peer: PeerConnection, key: ApiKey, version: int, request: Any) -> Any:
    return await peer.request(key, version, request, timeout_ms=10_000)


async def test_a_client_does_what_acls_allow_and_brokers_replicate_without_any(error_log: ErrorLog) -> None:
    async with running() as cluster:
        await put(cluster, *(anonymous(AclOperation.ALL, TOPIC, name) for name in ("orders", "bills")))
        client = {"bootstrap_servers": cluster.bootstrap}
        async with AIOKafkaProducer(**client, acks="all") as producer:
            await producer.send_and_wait("orders", b"one")
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("secret", b"two")
        error_log.expect("Topic secret is not authorized")
        assert list(cluster.store.image.topics) == ["orders"]
        async with AIOKafkaConsumer("orders", **client, auto_offset_reset="earliest") as consumer:
            assert (await consumer.getone()).value == b"one"
            await put(cluster)
            with pytest.raises(TopicAuthorizationFailedError):
                await consumer.getone()


async def test_acls_that_a_client_creates_are_in_effect_when_it_is_answered() -> None:
    async with running(**{"super.users": "User:root;User:CN=admin,C=DE"}) as cluster:
        peer = await peer_of(cluster)
        mine = AclCreation(
            resource_type=TOPIC,
            resource_name="*",
            principal="User:ANONYMOUS",
            host="*",
            operation=AclOperation.CREATE,
            permission_type=PermissionType.ALLOW,
        )
        request = CreateAclsRequest(creations=[mine])
        (refused,) = (await ask(peer, ApiKey.CREATE_ACLS, 3, request)).results
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await put(cluster, anonymous(AclOperation.ALTER, CLUSTER, "kafka-cluster"))
        (created,) = (await ask(peer, ApiKey.CREATE_ACLS, 3, request)).results
        assert created.error_code == ErrorCode.NONE
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        assert len(await admin.list_topics()) == 0
        await admin.close()
        peer.close()
        await peer.wait_closed()


async def test_no_permission_makes_a_client_a_follower() -> None:
    """CVE-2018-1288."""
    async with running(brokers="1", **{"super.users": "User:ANONYMOUS"}) as cluster:
        peer = await peer_of(cluster)
        partitions = [FetchPartition(partition=0)]
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=1, replica_epoch=1),
            topics=[FetchTopic(topic_id=b"i" * 16, partitions=partitions)],
        )
        answer = await ask(peer, ApiKey.FETCH, 16, request)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        peer.close()
        await peer.wait_closed()
