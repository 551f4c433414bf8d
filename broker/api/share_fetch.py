"""ShareFetch (key 78): acquire records for a member of a share group (KIP-932).

Versions 1–2; 2 adds the acquire mode (KIP-1206) and renewals (KIP-1222). The request may acknowledge what was acquired
before. The answer has whole record batches, and says which of their records are the member's: others may have been
acquired by other members, or before.
"""

from __future__ import annotations

from typing import Final

from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.api.share_requests import (
    acknowledgements,
    client_of,
    endpoints,
    error_of,
    keys_of,
    leader_hint,
)
from purgatorio.broker.layers.access.guards.share_groups import share_fetch as guard
from purgatorio.broker.routing.request import Handler, Reply, RequestContext
from purgatorio.broker.share.acquiring import AcquireLimits, AcquireMode
from purgatorio.broker.share.share_fetches import (
    FINAL_EPOCH,
    Results,
    ShareClient,
    ShareRequestError,
    ShareResult,
    ShareWants,
    named,
)
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from purgatorio.protocol.share_state import SharePartitionKey


class ShareFetchHandler:
    """Answers share fetches."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._shares = services.led_shares

    def handle(self, ctx: RequestContext, request: ShareFetchRequest, reply: Reply) -> None:
        """Answer when records can be acquired, or after `max_wait_ms`."""

        def answer(results: Results, error: ShareRequestError | None) -> None:
            reply(_refusal(error) if error is not None else self._response(ctx, request.group_id or "", results))

        try:
            client = client_of(ctx, request.group_id, request.member_id, request.share_session_epoch)
            self._shares.fetches.fetch(client, self._wants(client, request), answer)
        except ShareRequestError as error:
            reply(_refusal(error))

    def _wants(self, client: ShareClient, request: ShareFetchRequest) -> ShareWants:
        """Return what a request asks for.

        Raises:
            ShareRequestError: INVALID_REQUEST.
        """
        sizes = request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records
        if request.is_renew_ack and any(sizes):
            message = "a request that renews locks fetches nothing: its limits and its wait are 0"
            raise ShareRequestError(ErrorCode.INVALID_REQUEST, message)
        if request.share_acquire_mode not in list(AcquireMode):
            message = f"there is no acquire mode {request.share_acquire_mode}"
            raise ShareRequestError(ErrorCode.INVALID_REQUEST, message)
        keys = keys_of(client.group_id, request.topics)
        image = self._services.admin.store.image
        fetches = request.max_bytes > 0 and request.max_records > 0 and client.epoch != FINAL_EPOCH
        return ShareWants(
            added={key: named(image, key) for key in keys},
            forgotten=[
                SharePartitionKey(client.group_id, topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ],
            acknowledgements={key: acknowledgements(batches) for key, batches in keys.items() if batches},
            renews=request.is_renew_ack,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, request.max_bytes),
            limits=AcquireLimits(
                max_bytes=min(request.max_bytes, self._services.fetch_max_bytes),
                max_records=request.max_records,
                batch_size=request.batch_size,
                mode=AcquireMode(request.share_acquire_mode),
            )
            if fetches
            else None,
        )

    def _response(self, ctx: RequestContext, group_id: str, results: Results) -> ShareFetchResponse:
        topics: dict[bytes, list[PartitionData]] = {}
        for key, result in results.items():
            topics.setdefault(key.topic_id, []).append(self._data(result))
        leaders = (data.current_leader for listed in topics.values() for data in listed)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._shares.settings.of(group_id).record_lock_duration_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            node_endpoints=endpoints(self._services.admin.store.image, leaders, ctx.session.listener),
        )

    def _data(self, result: ShareResult) -> PartitionData:
        error_code, error_message = error_of(result.error)
        acknowledge_error_code, acknowledge_error_message = error_of(result.acknowledge_error)
        data = PartitionData(
            partition_index=result.key.partition,
            error_code=error_code,
            error_message=error_message,
            acknowledge_error_code=acknowledge_error_code,
            acknowledge_error_message=acknowledge_error_message,
            current_leader=leader_hint(self._services.replicas, result),
            records=[],
        )
        if result.acquired is not None:
            data.records = result.acquired.parts
            data.acquired_records = [
                AcquiredRecords(
                    first_offset=each.first_offset, last_offset=each.last_offset, delivery_count=each.delivery_count
                )
                for each in result.acquired.records
            ]
        return data


def _refusal(error: ShareRequestError) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error.error_code, error_message=str(error))


def _bind(services: Services) -> Handler:
    return ShareFetchHandler(services).handle


API: Final = ApiHandler(key=ApiKey.SHARE_FETCH, min_version=1, max_version=2, needs=guard, bind=_bind)
