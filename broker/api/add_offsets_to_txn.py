"""AddOffsetsToTxn (key 25): add the committed offsets of a group to a transaction (KIP-98).

Versions 0–4. The coordinator adds the group's partition of ``__consumer_offsets``, which is created if it is not there.
A request that finds a transition under way waits until it has ended, where Kafka answers CONCURRENT_TRANSACTIONS:
kafkajs asks only once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.coordinator_topics import ensure_topic, offsets_topic
from purgatorio.broker.api.init_producer_id import fenced_before
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.layers.access.guards.transactions import add_offsets as guard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION: Final = 2
"""The first version that answers PRODUCER_FENCED."""


def handle(
    admin: AdminContext,
    groups: GroupConfig,
    transactions: Transactions,
    ctx: RequestContext,
    request: AddOffsetsToTxnRequest,
    reply: Reply,
) -> None:
    """Add the partition that keeps the group."""

    def done(error_code: ErrorCode) -> None:
        reply(AddOffsetsToTxnResponse(error_code=fenced_before(FENCED_VERSION, ctx, error_code)))

    def add(error_code: ErrorCode) -> None:
        topic = transactions.image.topics.get(OFFSETS_TOPIC)
        if error_code or topic is None:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition(request.group_id, len(topic.partitions)))
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        client = ctx.client_id or ""
        transactions.partitions.add(request.transactional_id, producer, [tp], done, version=1, client=client)

    if not request.transactional_id:
        done(ErrorCode.INVALID_REQUEST)
    elif not request.group_id:
        done(ErrorCode.INVALID_GROUP_ID)
    else:
        ensure_topic(admin, ctx, offsets_topic(groups), add)


API: Final = ApiHandler(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    min_version=0,
    max_version=4,
    needs=guard,
    bind=lambda services: partial(handle, services.admin, services.groups.config, services.transactions),
)
