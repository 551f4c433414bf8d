"""Tests ask for access control lists, and clients of the cluster meet them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from purgatorio.testing import Kafka, cluster

ORDERS = "allow User:alice READ,WRITE topic orders"
FIRST = ["allow User:alice READ topic orders", "allow User:alice WRITE topic orders"]


@pytest.fixture(scope="module")
def secured() -> Iterator[Kafka]:
    with cluster(brokers=2, sasl="PLAIN", acls=[ORDERS], topics={"orders": 1, "secret": 1}) as kafka:
        yield kafka


def produce(kafka: Kafka, user: str, topic: str) -> KafkaError | None:
    """Produce one record as a user; returns the error."""
    errors: list[KafkaError | None] = []
    producer = Producer(kafka.client_config("confluent", user=user) | {"message.timeout.ms": 10_000})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    return errors[0]


def test_each_user_may_do_what_acls_say_from_the_start_and_after_a_reset(secured: Kafka) -> None:
    assert produce(secured, "alice", "orders") is None
    refused = produce(secured, "alice", "secret")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert secured.acls("allow User:bob ALL topic secret") == [*FIRST, "allow User:bob ALL topic secret"]
    assert produce(secured, "bob", "secret") is None
    saved = secured.snapshot()
    secured.reset()
    assert secured.acls() == FIRST
    assert produce(secured, "alice", "orders") is None
    secured.remove_acls(FIRST[0])
    secured.restore(saved)
    assert len(secured.acls()) == 3


def test_an_admin_client_lists_creates_and_deletes_acls(secured: Kafka) -> None:
    secured.reset()
    secured.acls("allow User:alice ALTER cluster")
    admin = AdminClient(secured.client_config("confluent", user="alice"))
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert len(admin.describe_acls(every).result(20)) == 3
    new = AclBinding(
        ResourceType.GROUP,
        "billing",
        ResourcePatternType.PREFIXED,
        "User:bob",
        "10.0.0.1",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    admin.create_acls([new])[new].result(20)
    assert secured.acls()[-1] == "deny User:bob READ group billing* from 10.0.0.1"
    match = AclBindingFilter(
        ResourceType.GROUP,
        "billing-eu",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.delete_acls([match])[match].result(20) == [new]
    other = AdminClient(secured.client_config("confluent", user="bob"))
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        other.create_acls([new])[new].result(20)


@pytest.mark.kafka(brokers=1, acls=[])
def test_with_an_empty_list_nothing_is_allowed(kafka: Kafka) -> None:
    assert kafka.acls() == []
    assert AdminClient(kafka.client_config("confluent")).list_topics(timeout=20).topics == {}
    with pytest.raises(ValueError, match="there is no ACL"):
        kafka.remove_acls(FIRST[0])
    with pytest.raises(ValueError, match="did you mean read"):
        kafka.acls("allow User:alice REED topic orders")


@pytest.mark.kafka(brokers=1)
def test_a_cluster_without_an_authorizer_says_how_to_get_one(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"authorizer\.class\.name=StandardAuthorizer"):
        kafka.acls(ORDERS)


def test_an_acl_that_is_none_is_named_before_the_cluster_starts() -> None:
    with pytest.raises(ValueError, match="is no ACL like"), cluster(acls=["alice may read"]):
        pass
