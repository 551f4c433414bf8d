"""The checks of APIs about transactions and producers, and of FindCoordinator."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import CODES, Access, altering, refuse
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.whole import named
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    BROKERS_VERSION,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from purgatorio.protocol.parts import part_of

TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
TOPIC: Final = ResourceType.TOPIC
GROUP: Final = ResourceType.GROUP

# --- FindCoordinator ---

BATCHED_FIND_VERSION: Final = 4
KINDS: Final = {0: GROUP, 1: TRANSACTIONAL_ID}
"""The type of resource that a coordinator is asked for; the handler refuses unknown types of keys."""
SHARE_KEY: Final = 2
_FIND: Final = {
    key_type: EachOne(ApiKey.FIND_COORDINATOR, AclOperation.DESCRIBE, kind) for key_type, kind in KINDS.items()
}


def find_coordinator(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Check DESCRIBE on each group or transactional id, and CLUSTER_ACTION for share partitions (KIP-932)."""
    kind = KINDS.get(request.key_type)
    if request.key_type == SHARE_KEY and not access.may_cluster(ctx, AclOperation.CLUSTER_ACTION):
        refuse(route, request, reply, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif kind is None:
        route.handler(ctx, request, reply)
    elif ctx.api_version >= BATCHED_FIND_VERSION:
        _FIND[request.key_type](access, route, ctx, request, reply)
    elif access.may(ctx, AclOperation.DESCRIBE, kind, request.key):
        route.handler(ctx, request, reply)
    else:
        refuse(route, request, reply, CODES[kind])


# --- producers ---


def init_producer_id(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Check WRITE on the id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679)."""
    kind, permissions = TRANSACTIONAL_ID, access.of(ctx)
    if request.transactional_id is not None:
        is_allowed = access.may(ctx, AclOperation.WRITE, kind, request.transactional_id)
    else:
        kind = ResourceType.CLUSTER
        is_allowed = permissions.allows_somewhere(AclOperation.WRITE, TOPIC) or access.may_cluster(
            ctx, AclOperation.IDEMPOTENT_WRITE
        )
    if is_allowed:
        route.handler(ctx, request, reply)
    else:
        refuse(route, request, reply, CODES[kind])


# --- partitions and offsets of transactions ---

_TOPICS: Final = part_of(ApiKey.ADD_PARTITIONS_TO_TXN, "v3_and_below_topics")
_WRITE_TOPICS: Final = EachOne(ApiKey.ADD_PARTITIONS_TO_TXN, AclOperation.WRITE, TOPIC, part=_TOPICS)


def add_partitions(
    access: Access, route: Route, ctx: RequestContext, request: AddPartitionsToTxnRequest, reply: Reply
) -> None:
    """Check WRITE on the transactional id and on each topic: no partition is added if one may not be."""
    if ctx.api_version >= BROKERS_VERSION:
        if access.may_cluster(ctx, AclOperation.CLUSTER_ACTION):
            route.handler(ctx, request, reply)
        else:
            refuse(route, request, reply, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    if not access.may(ctx, AclOperation.WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        refuse(route, request, reply, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return
    refused = _WRITE_TOPICS.refused(access, ctx, request)
    if refused:
        reply(_none_added(request, refused))
    else:
        route.handler(ctx, request, reply)


def _none_added(request: AddPartitionsToTxnRequest, refused: dict[int, Any]) -> AddPartitionsToTxnResponse:
    denied, others = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            result
            for nth, topic in enumerate(request.v3_and_below_topics)
            for result in _TOPICS.refused([topic], denied if nth in refused else others)
        ]
    )


add_offsets: Final = named(
    AclOperation.WRITE, TRANSACTIONAL_ID, "transactional_id", named(AclOperation.READ, GROUP, "group_id")
)
txn_offset_commit: Final = named(
    AclOperation.WRITE,
    TRANSACTIONAL_ID,
    "transactional_id",
    named(
        AclOperation.READ,
        GROUP,
        "group_id",
        EachOne(ApiKey.TXN_OFFSET_COMMIT, AclOperation.READ, TOPIC),
    ),
)


def write_markers(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Check CLUSTER_ACTION, or ALTER for tools, on the cluster."""
    may_alter = access.of(ctx).allows(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    if may_alter or access.may_cluster(ctx, AclOperation.CLUSTER_ACTION):
        route.handler(ctx, request, reply)
    else:
        refuse(route, request, reply, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


# --- descriptions ---


def hide_topics(access: Access, ctx: RequestContext, request: Any, answer: Any) -> None:
    """Leave out the topics of transactions that a client may not describe."""
    permissions = access.of(ctx)
    for transaction in answer.transaction_states:
        transaction.topics = [
            each for each in transaction.topics if permissions.allows(AclOperation.DESCRIBE, TOPIC, each.topic)
        ]


def list_transactions(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Leave out the transactional ids that a client may not describe."""
    permissions = access.of(ctx)

    def leave_out(answer: Any) -> None:
        answer.transaction_states = [
            each
            for each in answer.transaction_states
            if permissions.allows(AclOperation.DESCRIBE, TRANSACTIONAL_ID, each.transactional_id)
        ]

    route.handler(ctx, request, altering(ctx, reply, leave_out))
