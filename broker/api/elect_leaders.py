"""ElectLeaders (key 43): run preferred elections, or unclean elections of offline partitions (KIP-460).

Versions 0–2; v0 has preferred elections only. Any broker answers, when its image shows the elected leaders or after
`timeout_ms`. The response to a request for all partitions leaves out those that need no election, as in Kafka.

An unclean election loses the acknowledged records that the new leader lacks. No other request does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext, submit
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.causes.cause import NotLeading
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.cluster_change import ClusterChange, Decide
from purgatorio.broker.metadata.controller import ElectionResult, ElectionType, TopicSettings, elect_leaders
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PARTITIONS_PER_DECISION: Final = 1_000
"""The most partitions of one decision, if the request is for all of them: some milliseconds."""

logger = get_logger(__name__)


def handle(admin: AdminContext, ctx: RequestContext, request: ElectLeadersRequest, reply: Reply) -> None:
    """Submit the elections as a change of the metadata, whose result is the answer."""
    if request.election_type not in tuple(ElectionType):
        reply(error_response(request, ErrorCode.INVALID_REQUEST))
    else:
        submit(admin, ctx, _ElectLeaders(admin.topics, request, admin.store.image), reply)


class _ElectLeaders(ClusterChange[ElectionResult]):
    purgatory = "elections"

    def __init__(self, settings: TopicSettings, request: ElectLeadersRequest, image: ClusterImage) -> None:
        self._named = _named(request)
        self._all = _all(image) if self._named is None else []
        super().__init__([TopicPartition(*name) for name in self._named or ()], request.timeout_ms)
        self._settings = settings
        self._request = request
        self._election = ElectionType(request.election_type)

    def decisions(self) -> Sequence[Decide[ElectionResult]]:
        """Return a decision for each `PARTITIONS_PER_DECISION` of all partitions; one for those that are named."""
        if self._named is not None:
            return (partial(self._decide, self._named),)
        cuts = range(0, max(1, len(self._all)), PARTITIONS_PER_DECISION)
        return [partial(self._decide, self._all[first : first + PARTITIONS_PER_DECISION]) for first in cuts]

    def _decide(
        self, wanted: Sequence[tuple[str, int]], image: ClusterImage
    ) -> tuple[ClusterImage, Sequence[ElectionResult]]:
        return elect_leaders(image, wanted, self._election, settings=self._settings)

    def respond(self, results: Sequence[ElectionResult]) -> ElectLeadersResponse:
        if self._named is None:
            results = [result for result in results if result.error != ErrorCode.ELECTION_NOT_NEEDED]
        return _response(results)

    def refuse(self, error_code: ErrorCode) -> ElectLeadersResponse:
        return error_response(self._request, error_code)

    def unseen(self, image: ClusterImage, result: ElectionResult) -> NotLeading | None:
        """Return a leadership that the image does not show yet; none is awaited for a deleted partition."""
        if result.error is not ErrorCode.NONE or result.state is None:
            return None
        seen = image.partition(result.topic, result.partition)
        if seen is None or seen.leader_epoch >= result.state.leader_epoch:
            return None
        return NotLeading(TopicPartition(result.topic, result.partition), result.state.leader)

    def timed_out(self, result: ElectionResult, message: str) -> ElectionResult:
        return replace(result, error=ErrorCode.REQUEST_TIMED_OUT, message=message)

    def committed(self, results: Sequence[ElectionResult]) -> None:
        if self._election is ElectionType.UNCLEAN:
            _log_unclean(results)


def _named(request: ElectLeadersRequest) -> list[tuple[str, int]] | None:
    if request.topic_partitions is None:
        return None
    return [(topic.topic, partition) for topic in request.topic_partitions for partition in topic.partitions]


def _all(image: ClusterImage) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in image.topics.values() for index in range(len(topic.partitions))]


def _log_unclean(results: Iterable[ElectionResult]) -> None:
    for result in results:
        if result.error is ErrorCode.NONE and result.state is not None:
            logger.warning(
                "unclean election: records that the new leader lacks are lost",
                partition=f"{result.topic}-{result.partition}",
                leader=result.state.leader,
            )


def _response(results: Iterable[ElectionResult]) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    for result in results:
        topic = topics.setdefault(result.topic, ReplicaElectionResult(topic=result.topic, partition_result=[]))
        topic.partition_result.append(
            PartitionResult(partition_id=result.partition, error_code=result.error, error_message=result.message)
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


def error_response(request: ElectLeadersRequest, error_code: ErrorCode) -> ElectLeadersResponse:
    """Return the response with `error_code` for the request (from v1 on) and for every partition that it names."""
    named = _named(request) or []
    response = _response([ElectionResult(topic, partition, None, error_code) for topic, partition in named])
    response.error_code = error_code
    return response


API: Final = ApiHandler(
    key=ApiKey.ELECT_LEADERS,
    min_version=0,
    max_version=2,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)
