"""DescribeQuorum (key 55): describe the controllers that vote on the metadata (KIP-595). Versions 0–2.

The metadata have no quorum of their own here: one store keeps them for all brokers, and the lowest live broker is the
controller. The answer says that in Kafka's terms, for tools that look for the controllers: the leader is the
controller, its epoch grows when another broker becomes it, the voters are the brokers, since each can become it, and
every offset is the metadata's version, since all read the same store. Times are not known.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.listing import reachable_brokers
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import METADATA_TOPIC
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
    Listener,
    Node,
    ReplicaState,
)

"""The topic that a request names; partition 0 is its only one. No client can read it."""


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeQuorumRequest, reply: Reply) -> None:
    """Answer from this broker's image; any topic or partition beside the metadata's makes all of them unknown."""
    asked = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if asked and asked != [(METADATA_TOPIC, 0)]:
        reply(_unknown(request))
        return
    image = admin.store.image
    reply(
        DescribeQuorumResponse(
            error_message=None,
            topics=[
                DescribeQuorumResponseTopic(
                    topic_name=topic.topic_name, partitions=[_described(image) for _ in topic.partitions]
                )
                for topic in request.topics
            ],
            nodes=[
                Node(
                    node_id=broker.broker_id,
                    listeners=[Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)],
                )
                for broker, endpoint in reachable_brokers(image, ctx.session.listener)
                if asked
            ],
        )
    )


def _described(image: ClusterImage) -> DescribeQuorumResponsePartition:
    return DescribeQuorumResponsePartition(
        error_message=None,
        leader_id=image.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=image.version,
        current_voters=[
            ReplicaState(replica_id=broker_id, log_end_offset=image.version) for broker_id in image.brokers
        ],
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    why = f"Only partition 0 of {METADATA_TOPIC} has a quorum."
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            DescribeQuorumResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartition(
                        partition_index=each.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=why,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_QUORUM,
    min_version=0,
    max_version=2,
    needs=cluster(AclOperation.DESCRIBE),
    bind=lambda services: partial(handle, services.admin),
)
