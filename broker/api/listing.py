"""Parts of responses that several APIs share: operations, leaders, offline replicas, endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.image import NO_LEADER, BrokerRegistration, ClusterImage, Endpoint, PartitionState
from purgatorio.protocol.errors import ErrorCode


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
"""All operations on a topic, as a bit field (KIP-430): without ACLs every client is authorized."""

CLUSTER_OPERATIONS: Final = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
"""All operations on the cluster, as a bit field."""

GROUP_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
"""All operations on a group, as a bit field."""

NO_OPERATIONS: Final = -(2**31)
"""The bit field in answers to requests that do not ask for it."""


def leader_of(
    image: ClusterImage, state: PartitionState, seems_dead: Callable[[int], bool] = lambda broker_id: False
) -> tuple[ErrorCode, int]:
    """Return a partition's error code and leader: LEADER_NOT_AVAILABLE and −1 while no live broker leads it."""
    if image.live_broker(state.leader) is not None and not seems_dead(state.leader):
        return ErrorCode.NONE, state.leader
    return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER


def offline_replicas(image: ClusterImage, state: PartitionState) -> list[int]:
    """Return the replicas of a partition whose brokers are fenced or not registered."""
    return [replica for replica in state.replicas if image.live_broker(replica) is None]


def reachable_brokers(image: ClusterImage, listener: str) -> Iterator[tuple[BrokerRegistration, Endpoint]]:
    """Yield the live brokers that have a listener of this name, with its endpoint; others are left out, as in Kafka."""
    for broker in image.live_brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            yield broker, endpoint


def leader_endpoints(
    image: ClusterImage, leader_ids: Iterable[int], listener: str
) -> Iterator[tuple[BrokerRegistration, Endpoint]]:
    """Yield each leader once, with its endpoint, so that a client can connect to it at once (KIP-951).

    Args:
        leader_ids: the leaders that the response names; -1 means no leader.
        listener: the name of the listener that accepted the client's connection.
    """
    for leader_id in dict.fromkeys(leader_ids):
        broker = image.live_broker(leader_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            yield broker, endpoint
