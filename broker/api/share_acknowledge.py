"""ShareAcknowledge (key 79): acknowledge acquired records, without a fetch (KIP-932).

Versions 1–2; 2 adds renewals (KIP-1222). The answer leaves when the results are replicated.
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
from purgatorio.broker.layers.access.guards.share_groups import share_acknowledge as guard
from purgatorio.broker.routing.request import Handler, Reply, RequestContext
from purgatorio.broker.share.share_fetches import Results, ShareRequestError
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.share_acknowledge import (
    AcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


class ShareAcknowledgeHandler:
    """Answers requests that acknowledge records."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._shares = services.led_shares

    def handle(self, ctx: RequestContext, request: ShareAcknowledgeRequest, reply: Reply) -> None:
        """Answer when the results are committed."""

        def answer(results: Results, error: ShareRequestError | None) -> None:
            reply(_refusal(error) if error is not None else self._response(ctx, request.group_id or "", results))

        try:
            client = client_of(ctx, request.group_id, request.member_id, request.share_session_epoch)
            keys = keys_of(client.group_id, request.topics)
            named = {key: acknowledgements(batches) for key, batches in keys.items() if batches}
            self._shares.fetches.acknowledge(client, named, answer, renews=request.is_renew_ack)
        except ShareRequestError as error:
            reply(_refusal(error))

    def _response(self, ctx: RequestContext, group_id: str, results: Results) -> ShareAcknowledgeResponse:
        topics: dict[bytes, list[AcknowledgePartitionData]] = {}
        leaders = []
        for key, result in results.items():
            error_code, error_message = error_of(result.acknowledge_error)
            data = AcknowledgePartitionData(
                partition_index=key.partition,
                error_code=error_code,
                error_message=error_message,
                current_leader=leader_hint(self._services.replicas, result),
            )
            leaders.append(data.current_leader)
            topics.setdefault(key.topic_id, []).append(data)
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._shares.settings.of(group_id).record_lock_duration_ms,
            responses=[
                ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            node_endpoints=endpoints(self._services.admin.store.image, leaders, ctx.session.listener),
        )


def _refusal(error: ShareRequestError) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error.error_code, error_message=str(error))


def _bind(services: Services) -> Handler:
    return ShareAcknowledgeHandler(services).handle


API: Final = ApiHandler(key=ApiKey.SHARE_ACKNOWLEDGE, min_version=1, max_version=2, needs=guard, bind=_bind)
