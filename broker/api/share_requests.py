"""The common part of ShareFetch and ShareAcknowledge: the member, its acknowledgements, and parts of answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from purgatorio.broker.api.listing import leader_endpoints
from purgatorio.broker.group.share.share_groups import MAX_MEMBER_ID
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.lookup import NO_HINT
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import RequestContext
from purgatorio.broker.share.acknowledging import ShareAcknowledgementBatch
from purgatorio.broker.share.share_fetches import ShareClient, ShareRequestError, ShareResult
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.share_acknowledge import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from purgatorio.protocol.share_state import SharePartitionKey

NO_LEADER_HINT: Final = LeaderIdAndEpoch()
"""The leader in an answer that names none; no answer changes it."""


def client_of(ctx: RequestContext, group_id: str | None, member_id: str | None, epoch: int) -> ShareClient:
    """Return the member that sends a request.

    Raises:
        ShareRequestError: INVALID_REQUEST: it names no group, or no member, or one with an id that none can have.
    """
    if not group_id or not member_id:
        message = f"a share request names its {'member' if group_id else 'group'}"
        raise ShareRequestError(ErrorCode.INVALID_REQUEST, message)
    if len(member_id) > MAX_MEMBER_ID:
        raise ShareRequestError(ErrorCode.INVALID_REQUEST, f"a member id has {MAX_MEMBER_ID} characters at most")
    return ShareClient(group_id, member_id, epoch, ctx.session, ctx.client_id or "")


def acknowledgements(batches: Iterable[AcknowledgementBatch]) -> list[ShareAcknowledgementBatch]:
    """Return what a request says of the records of one partition."""
    return [
        ShareAcknowledgementBatch(each.first_offset, each.last_offset, tuple(each.acknowledge_types))
        for each in batches
    ]


def keys_of(group_id: str, topics: Iterable[Any]) -> dict[SharePartitionKey, list[AcknowledgementBatch]]:
    """Return the partitions that a request names, each once, with its acknowledgements."""
    found: dict[SharePartitionKey, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for partition in topic.partitions:
            key = SharePartitionKey(group_id, topic.topic_id, partition.partition_index)
            found.setdefault(key, []).extend(partition.acknowledgement_batches)
    return found


def error_of(error: PartitionError | None) -> tuple[int, str | None]:
    """Return the code and the words of an error of a partition."""
    return (ErrorCode.NONE, None) if error is None else (error.error_code, str(error))


def leader_hint(replicas: ReplicaManager, result: ShareResult) -> LeaderIdAndEpoch:
    """Return the leader to name with the result of a partition, if another broker leads it."""
    for error in (result.error, result.acknowledge_error):
        if error is not None:
            hint = replicas.lookup.hint(result.tp, error.error_code)
            if hint is not NO_HINT:
                return LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
    return NO_LEADER_HINT


def endpoints(image: ClusterImage, leaders: Iterable[LeaderIdAndEpoch], listener: str) -> list[NodeEndpoint]:
    """Return the endpoints of the leaders that an answer names."""
    ids = [leader.leader_id for leader in leaders if leader is not NO_LEADER_HINT]
    return [
        NodeEndpoint(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in leader_endpoints(image, ids, listener)
    ]
