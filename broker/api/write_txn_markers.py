"""WriteTxnMarkers (key 27): append the markers that end transactions (KIP-98).

Versions 1–2; 2 adds the transaction version, which decides how epochs are bumped (KIP-1228). A partition's leader
answers when all in-sync replicas have the marker. Transaction coordinators send the request. As in Kafka without an
authorizer, an admin client may send it too: so Kafka's tools end a transaction that hangs (KIP-664).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.transactions import write_markers as guard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.txn.marker_writer import Marker, MarkerWriter
from purgatorio.broker.txn.values import BUMPING_VERSION
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MAX_MARKERS: Final = 300
"""The most partitions of a request, in all its markers: about 20 ms of a leader's time. Further ones are refused with
REQUEST_TIMED_OUT, after which a coordinator sends them again. This broker's coordinators send at most 200."""

_Codes = dict[TopicPartition, ErrorCode]


def handle(writer: MarkerWriter, ctx: RequestContext, request: WriteTxnMarkersRequest, reply: Reply) -> None:
    """Append the markers; answer when the followers have them too."""
    left = MAX_MARKERS
    results: list[_Codes] = []
    accepted: list[list[TopicPartition]] = []
    for wanted in request.markers:
        partitions = _partitions(wanted)
        accepted.append(partitions[:left])
        results.append(dict.fromkeys(partitions, ErrorCode.REQUEST_TIMED_OUT))
        left -= len(accepted[-1])
    missing = sum(map(len, accepted))

    def written(codes: _Codes, tp: TopicPartition, error_code: ErrorCode) -> None:
        nonlocal missing
        codes[tp] = error_code
        missing -= 1
        if not missing:
            reply(_response(request, results))

    if not missing:
        reply(_response(request, results))
    for wanted, partitions, codes in zip(request.markers, accepted, results, strict=True):
        writer.write(_marker(wanted), partitions, partial(written, codes), client=ctx.client_id or "")


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    """Return the partitions of a marker, each once."""
    named = (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    return list(dict.fromkeys(named))


def _marker(wanted: WritableTxnMarker) -> Marker:
    return Marker(
        wanted.producer_id,
        wanted.producer_epoch,
        EndMarker(wanted.transaction_result, wanted.coordinator_epoch),
        is_bumped=wanted.transaction_version >= BUMPING_VERSION,
    )


def _response(request: WriteTxnMarkersRequest, results: list[_Codes]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=wanted.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in wanted.topics
                ],
            )
            for wanted, codes in zip(request.markers, results, strict=True)
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.WRITE_TXN_MARKERS,
    min_version=1,
    max_version=2,
    needs=guard,
    bind=lambda services: partial(handle, services.markers),
)
