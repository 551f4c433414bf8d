"""Produce (key 0): append records, and acknowledge them according to `acks`.

Versions 3–13 are answered; from v13 on topics are named by id (KIP-516), and a batch for a topic that was deleted is
refused with UNKNOWN_TOPIC_ID, though another topic may have its name. Lower versions carry message formats that this
broker does not read; ApiVersions advertises them all the same (KAFKA-18659: librdkafka 2.0 disables compression if the
minimum is above 0). Clients may not produce to internal topics (INVALID_TOPIC_EXCEPTION): their records are the state
of coordinators.

Batches of transactions are appended once the transaction's coordinator has confirmed that the transaction includes the
partition; from version 12 on, the request itself adds it (KIP-890).
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.listing import leader_endpoints
from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.layers.access.guards.topics import produce as guard
from purgatorio.broker.log.memory import UncommittedShare
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import INTERNAL_TOPICS, is_internal
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import NO_TRANSACTIONAL_ID, Partition
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.broker.replica.producing.writes import AppendDone, AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Handler, Reply, RequestContext
from purgatorio.broker.time.long_work import SLICE, Steps
from purgatorio.protocol.api import EncodedResponse
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode
from purgatorio.protocol.messages.produce import (
    TOPIC_IDS_VERSION,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
    encode_one_appended,
)
from purgatorio.protocol.parts import failed
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import NO_PRODUCER_ID, is_transactional, producer_in, read_header

ACKS = (-1, 0, 1)
NODE_ENDPOINTS_VERSION = 10
ZSTD_VERSION = 7
"""The first version that may carry zstd (KIP-110)."""
COST_OF_BATCH = 8
"""The cost of appending a batch (see `LongWork`), besides a microsecond for each KiB."""
MAX_COST = 2 * SLICE
"""The cost of the batches of a request that are appended at once, if they are several; more are appended in steps."""
SLOW_MS = 1_000
"""The longest that a client waits between two requests because its uncommitted records fill the memory."""
ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may produce to internal topics, as in Kafka: that of its tools for repairs."""
ABORTABLE_VERSION: Final = 11
"""The first version that may answer TRANSACTION_ABORTABLE (KIP-890)."""
ADDING_VERSION: Final = 12
"""The first version that adds its partitions to the transaction (KIP-890)."""


def handle(
    replicas: ReplicaManager,
    image: Callable[[], ClusterImage],
    listings: Listings,
    ctx: RequestContext,
    request: ProduceRequest,
    reply: Reply,
) -> None:
    """Append; answer at once (acks=1), when all in-sync replicas have the records (acks=-1), or never (acks=0)."""
    if request.acks not in ACKS:
        reply(error_response(request, ErrorCode.INVALID_REQUIRED_ACKS))
        return
    topic_ids = name_topics(image(), request) if ctx.api_version >= TOPIC_IDS_VERSION else None
    batches = _batches(request)
    answer = _Answer(replicas, ctx, request, reply)
    if topic_ids is not None:
        answer.refused = of_gone_topics(replicas.lookup, topic_ids, batches)
    if ctx.api_version < ZSTD_VERSION or _names_internal_topic(request):
        answer.refused = {**_refused(ctx, batches), **answer.refused}
    if answer.refused:
        batches = [batch for nth, batch in enumerate(batches) if nth not in answer.refused]
    transaction: ProducerTransaction | None = None
    # A single batch without a transactional id is left to the partition, which refuses it if it is of a transaction.
    if (request.transactional_id is not None or len(batches) > 1) and has_transactional(batches):
        known = transaction_of(request.transactional_id, ctx.api_version, batches)
        if isinstance(known, AppendResult):
            answer.done([known] * len(batches))
            return
        transaction = known
    if COST_OF_BATCH * len(batches) + (ctx.request_bytes >> 10) > MAX_COST:
        steps = _in_steps(replicas, topic_ids, ctx, request, batches, transaction, answer)
        listings.begin(steps, ctx.session, finishes=request.acks == 0)
    elif transaction is None:
        replicas.append(
            batches, acks=request.acks, timeout_ms=request.timeout_ms, done=answer.done, client=ctx.client_id or ""
        )
    else:
        _append_in_transaction(replicas, ctx, request, batches, transaction, answer.done)
    if replicas.memory.led.is_filling:
        _slow_down(replicas, ctx, batches)


def _slow_down(
    replicas: ReplicaManager, ctx: RequestContext, batches: Sequence[tuple[TopicPartition, Buffer | None]]
) -> None:
    """Mute a client whose uncommitted records come near their share of the memory, until followers have them.

    Its next requests would be refused otherwise, and a producer that is not idempotent would write out of order. The
    page shows the wait like a produce request.
    """
    share = replicas.memory.led
    share.is_filling = False
    filling = (tp for tp, _ in batches if _fills(share, replicas.lookup.known(tp)))
    tp = next(filling, None)
    if tp is not None:
        channel = ctx.session.channel
        channel.mute()
        replicas.await_replicas(tp, timeout_ms=SLOW_MS, done=lambda _: channel.unmute(), client=ctx.client_id or "")


def _fills(share: UncommittedShare, partition: Partition | None) -> bool:
    return partition is not None and share.is_filled_by(partition.log.uncommitted_bytes)


def has_transactional(batches: Sequence[tuple[TopicPartition, Buffer | None]]) -> bool:
    """Return whether one of the batches belongs to a transaction."""
    for _, records in batches:  # noqa: SIM110 - each request asks, and `any` takes three times as long
        if records is not None and is_transactional(records):
            return True
    return False


def transaction_of(
    transactional_id: str | None, version: int, batches: Sequence[tuple[TopicPartition, Buffer | None]]
) -> ProducerTransaction | AppendResult:
    """Return the transaction of the transactional batches, of which there is at least one; or why all are refused.

    TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, as in Kafka; INVALID_REQUEST if it is empty;
    INVALID_PRODUCER_ID_MAPPING if the batches are of several producers or epochs, or of none.
    """
    if transactional_id is None:
        return AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONAL_ID)
    if not transactional_id:
        return AppendResult(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    producers = {producer_in(records) for _, records in batches if records is not None and is_transactional(records)}
    producers.discard(None)  # what cannot be read is refused alone
    if len(producers) > 1:
        message = "a request has batches of one transactional producer only"
        return AppendResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    producer_id, epoch = next(iter(producers), None) or (NO_PRODUCER_ID, -1)
    if producers and producer_id < 0:
        return AppendResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a batch of a transaction has no producer id")
    return ProducerTransaction(transactional_id, producer_id, epoch, adds_partitions=version >= ADDING_VERSION)


def as_known_to(version: int, results: Sequence[AppendResult]) -> None:
    """Replace errors that clients of a version do not know."""
    if version >= ABORTABLE_VERSION:
        return
    for result in results:
        if result.error_code == ErrorCode.TRANSACTION_ABORTABLE:
            result.error_code = ErrorCode.INVALID_TXN_STATE


def _append_in_transaction(
    replicas: ReplicaManager,
    ctx: RequestContext,
    request: ProduceRequest,
    batches: Sequence[tuple[TopicPartition, Buffer | None]],
    transaction: ProducerTransaction,
    done: AppendDone,
) -> None:
    """Append batches of which at least one belongs to a transaction."""
    replicas.append_in_transaction(
        batches,
        transaction,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        done=partial(_done_in_transaction, ctx.api_version, done),
        client=ctx.client_id or "",
    )


def _in_steps(
    replicas: ReplicaManager,
    topic_ids: Mapping[str, bytes] | None,
    ctx: RequestContext,
    request: ProduceRequest,
    batches: Sequence[tuple[TopicPartition, Buffer | None]],
    transaction: ProducerTransaction | None,
    answer: _Answer,
) -> Steps:
    """Append very many or very large batches in steps, and answer when the last of them is appended or replicated."""
    cuts = _cuts(batches)
    results: list[Sequence[AppendResult]] = [()] * len(cuts)
    missing = len(cuts)

    def done(nth: int, refused: Mapping[int, AppendResult], appended: Sequence[AppendResult]) -> None:
        nonlocal missing
        results[nth] = _with_refused(appended, refused)
        missing -= 1
        if not missing:
            answer.done([result for each in results for result in each])

    for nth, cut in enumerate(cuts):
        yield 0
        # a topic may be deleted, and created again, between steps
        refused = {} if topic_ids is None else of_gone_topics(replicas.lookup, topic_ids, cut)
        kept = [batch for position, batch in enumerate(cut) if position not in refused] if refused else cut
        if transaction is None:
            replicas.append(
                kept,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                done=partial(done, nth, refused),
                client=ctx.client_id or "",
            )
        else:
            _append_in_transaction(replicas, ctx, request, kept, transaction, partial(done, nth, refused))
    if replicas.memory.led.is_filling:
        _slow_down(replicas, ctx, batches)


def _cuts(
    batches: Sequence[tuple[TopicPartition, Buffer | None]],
) -> list[list[tuple[TopicPartition, Buffer | None]]]:
    """Cut the batches of a request into those of each step."""
    cuts: list[list[tuple[TopicPartition, Buffer | None]]] = []
    cut_cost = 0
    for tp, records in batches:
        cost = COST_OF_BATCH + (0 if records is None else len(records) >> 10)
        if not cuts or cut_cost + cost > MAX_COST:
            cuts.append([])
            cut_cost = 0
        cuts[-1].append((tp, records))
        cut_cost += cost
    return cuts


def _done_in_transaction(version: int, done: AppendDone, results: Sequence[AppendResult]) -> None:
    as_known_to(version, results)
    done(results)


class _Answer:
    """Answers one request when its batches are appended, or replicated.

    Attributes:
        refused: the results of the batches that are not to be appended, by position.
    """

    __slots__ = ("_ctx", "_replicas", "_reply", "_request", "refused")

    def __init__(self, replicas: ReplicaManager, ctx: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        self._replicas = replicas
        self._ctx = ctx
        self._request = request
        self._reply = reply
        self.refused: Mapping[int, AppendResult] = {}

    def done(self, results: Sequence[AppendResult]) -> None:
        """Answer with the results of the batches that were appended."""
        request, version = self._request, self._ctx.api_version
        if self.refused:
            results = _with_refused(results, self.refused)
        if request.acks == 0:
            _answer_acks_0(results, self._reply)
            return
        if len(results) == 1 and not results[0].error_code:
            message = _one_appended(version, request, results[0])
            if message is not None:
                self._reply(EncodedResponse(message))
                return
        response = _response(request, results)
        if version >= NODE_ENDPOINTS_VERSION:
            response.node_endpoints = _endpoints(self._replicas.image, results, self._ctx.session.listener)
        self._reply(response)


def _one_appended(version: int, request: ProduceRequest, result: AppendResult) -> bytes | None:
    """Return the encoded response to a request for one partition, as most are; None if it takes the encoder."""
    if len(request.topic_data) != 1:
        return None  # other topics have no partitions
    topic = request.topic_data[0]
    index = topic.partition_data[0].index
    return encode_one_appended(
        version,
        topic.name,
        topic.topic_id,
        index,
        result.base_offset,
        result.log_append_time_ms,
        result.log_start_offset,
    )


def _answer_acks_0(results: Sequence[AppendResult], reply: Reply) -> None:
    """Send nothing, or close the connection after an error: a producer with acks=0 reads no response (as in Kafka)."""
    failed = next((result for result in results if result.error_code), None)
    if failed is None:
        reply.nothing()
    else:
        reply.close(f"produce with acks=0 failed: {failed.error_code.name}: {failed.error_message}")


def _endpoints(image: ClusterImage | None, results: Sequence[AppendResult], listener: str) -> list[NodeEndpoint]:
    """Return the endpoints of the leaders that the response names (KIP-951)."""
    if image is None:
        return []
    leader_ids = (result.leader_id for result in results if result.leader_id >= 0)
    return [
        NodeEndpoint(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in leader_endpoints(image, leader_ids, listener)
    ]


def _batches(request: ProduceRequest) -> list[tuple[TopicPartition, Buffer | None]]:
    """Return each partition of the request with its records.

    The request gives them away: it waits for the replicas, but its memory need not.
    """
    batches: list[tuple[TopicPartition, Buffer | None]] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            # The decoder returns records as one view into the request.
            records: Buffer | None = data.records  # type: ignore[assignment]
            data.records = None
            batches.append((TopicPartition(topic.name, data.index), records))
    return batches


def _names_internal_topic(request: ProduceRequest) -> bool:
    for topic in request.topic_data:  # noqa: SIM110 - each request asks, and `any` takes three times as long
        if topic.name in INTERNAL_TOPICS:
            return True
    return False


def _refused(ctx: RequestContext, batches: list[tuple[TopicPartition, Buffer | None]]) -> dict[int, AppendResult]:
    """Return results for the batches that this client may not append, by position."""
    refused = {}
    for nth, (tp, records) in enumerate(batches):
        if is_internal(tp.topic) and ctx.client_id != ADMIN_CLIENT_ID:
            message = f"only brokers produce to the internal topic {tp.topic}"
            refused[nth] = AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        elif ctx.api_version < ZSTD_VERSION and records is not None and _is_zstd(records):
            message = f"zstd needs Produce version {ZSTD_VERSION} or higher"
            refused[nth] = AppendResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    return refused


def _is_zstd(records: Buffer) -> bool:
    """Return whether the first batch is compressed with zstd; False for bytes that are no batch."""
    try:
        return read_header(records).compression == Compression.ZSTD
    except CorruptRecordError:
        return False


def _with_refused(results: Sequence[AppendResult], refused: Mapping[int, AppendResult]) -> Sequence[AppendResult]:
    """Return the results of all batches of the request."""
    appended = iter(results)
    count = len(results) + len(refused)
    return [refused[nth] if nth in refused else next(appended) for nth in range(count)]


def _response(request: ProduceRequest, results: Iterable[AppendResult]) -> ProduceResponse:
    """Return the response; `results` are in the order of the request's partitions."""
    remaining = iter(results)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _partition_response(data.index, result)
                    for data, result in zip(topic.partition_data, remaining, strict=False)
                ],
            )
            for topic in request.topic_data
            if topic.partition_data  # a topic without partitions is left out, as in Kafka
        ]
    )


def _partition_response(index: int, result: AppendResult) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index=index,
        error_code=result.error_code,
        error_message=result.error_message,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    if result.record_errors:
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in result.record_errors
        ]
    if result.leader_id >= 0:
        response.current_leader = LeaderIdAndEpoch(leader_id=result.leader_id, leader_epoch=result.leader_epoch)
    return response


def error_response(request: ProduceRequest, error_code: ErrorCode) -> Any:
    """Return the response with `error_code` for every partition; None (close) with acks=0, which has no response."""
    if request.acks == 0:
        return None
    return failed(ApiKey.PRODUCE, request, error_code)


def _bind(services: Services) -> Handler:
    admin = services.admin
    return partial(handle, services.replicas, lambda: admin.store.image, admin.listings)


API: Final = ApiHandler(
    key=ApiKey.PRODUCE,
    min_version=0,
    max_version=13,
    min_answered_version=3,
    needs=guard,
    bind=_bind,
    error_response=error_response,
)


def name_topics(image: ClusterImage, request: ProduceRequest) -> Mapping[str, bytes]:
    """Fill in the names of the topics of a request that has their ids; return the ids by name.

    A topic that the image does not have keeps its empty name, and is not returned.
    """
    topic_ids = {}
    for topic in request.topic_data:
        known = image.topic_by_id(topic.topic_id)
        if known is not None:
            topic.name = known.name
            topic_ids[known.name] = topic.topic_id
    return topic_ids


def of_gone_topics(
    lookup: ReplicaLookup, topic_ids: Mapping[str, bytes], batches: Sequence[tuple[TopicPartition, Buffer | None]]
) -> dict[int, AppendResult]:
    """Return UNKNOWN_TOPIC_ID for each batch, by position, whose topic this broker does not have.

    It may still have, or have already, another topic of the same name.

    Args:
        topic_ids: the ids of the topics that exist, by name.
    """
    gone = {}
    for nth, (tp, _) in enumerate(batches):
        topic_id, partition = topic_ids.get(tp.topic), lookup.known(tp)
        if topic_id is None or (partition is not None and partition.topic_id != topic_id):
            gone[nth] = AppendResult(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    return gone
