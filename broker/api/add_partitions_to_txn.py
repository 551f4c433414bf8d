"""AddPartitionsToTxn (key 24): add partitions to transactions, before records are written to them (KIP-98).

Versions 0–5. Clients send 0 to 3, for one transaction; those requests wait while a transition is under way, where Kafka
answers CONCURRENT_TRANSACTIONS. Leaders send 4 and 5, for many transactions, to add partitions or only to verify that
they are in (KIP-890); so may clients, if ACLs allow them CLUSTER_ACTION or there are none, as in Kafka. Of those the
first ones wait for a short time, as they come from producers whose last commit was answered before all its markers were
written. An unknown partition is refused, and then no other is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.init_producer_id import fenced_before
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.transactions import add_partitions as guard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    BROKERS_VERSION,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_VERSION: Final = 2
"""The first version that answers PRODUCER_FENCED."""
MAX_TRANSACTIONS: Final = 200
"""The most transactions of a request, some 20 ms if each is extended; this broker's leaders send at most 100. Further
ones are refused with COORDINATOR_NOT_AVAILABLE, after which producers try again."""


def handle(transactions: Transactions, ctx: RequestContext, request: AddPartitionsToTxnRequest, reply: Reply) -> None:
    """Add the partitions, or verify them."""
    if ctx.api_version >= BROKERS_VERSION:
        _handle_batch(transactions, request, reply)
        return
    topics = request.v3_and_below_topics
    partitions = _partitions(topics)
    unknown = _unknown(transactions.image, partitions)

    def done(error_code: ErrorCode) -> None:
        code = fenced_before(FENCED_VERSION, ctx, error_code)
        reply(_client_response(topics, dict.fromkeys(partitions, code)))

    if not request.v3_and_below_transactional_id:
        done(ErrorCode.INVALID_REQUEST)
    elif unknown or not partitions:
        reply(_client_response(topics, unknown))
    else:
        transactions.partitions.add(
            request.v3_and_below_transactional_id,
            ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            partitions,
            done,
            version=1,
            client=ctx.client_id or "",
        )


def _handle_batch(transactions: Transactions, request: AddPartitionsToTxnRequest, reply: Reply) -> None:
    """Answer when all transactions are verified, or have their partitions."""
    results: dict[int, AddPartitionsToTxnResult] = {}
    count = len(request.transactions)

    def done(nth: int, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        each = request.transactions[nth]
        results[nth] = AddPartitionsToTxnResult(
            transactional_id=each.transactional_id, topic_results=_results(each.topics, codes)
        )
        if len(results) == count:
            reply(AddPartitionsToTxnResponse(results_by_transaction=[results[each] for each in range(count)]))

    for nth, each in enumerate(request.transactions):
        if nth < MAX_TRANSACTIONS:
            _handle_transaction(transactions, each, partial(done, nth))
        else:
            done(nth, dict.fromkeys(_partitions(each.topics), ErrorCode.COORDINATOR_NOT_AVAILABLE))
    if not count:
        reply(AddPartitionsToTxnResponse())


def _handle_transaction(
    transactions: Transactions,
    asked: AddPartitionsToTxnTransaction,
    done: partial[None],
) -> None:
    partitions = _partitions(asked.topics)
    # A leader may know a topic before this broker does. Its markers would be left out, as those of deleted topics.
    unknown = {} if asked.verify_only else _unknown(transactions.image, partitions)
    if unknown:
        done(unknown)
        return
    transactions.partitions.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        partitions,
        verify_only=asked.verify_only,
        done=done,
    )


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _unknown(image: ClusterImage, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, ErrorCode]:
    """Return the error codes if some of the partitions do not exist; nothing if all do."""
    unknown = [tp for tp in partitions if not _exists(image, tp)]
    if not unknown:
        return {}
    codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return {**codes, **dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


def _exists(image: ClusterImage, tp: TopicPartition) -> bool:
    topic = image.topics.get(tp.topic)
    return topic is not None and 0 <= tp.partition < len(topic.partitions)


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition, partition_error_code=codes[TopicPartition(topic.name, partition)]
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def _client_response(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes))


def error_response(request: AddPartitionsToTxnRequest, error_code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Return the response with `error_code` for every partition."""
    topics = request.v3_and_below_topics
    return AddPartitionsToTxnResponse(
        error_code=error_code,
        results_by_topic_v3_and_below=_results(topics, dict.fromkeys(_partitions(topics), error_code)),
    )


API: Final = ApiHandler(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    min_version=0,
    max_version=5,
    needs=guard,
    bind=lambda services: partial(handle, services.transactions),
    error_response=error_response,
)
