"""DeleteShareGroupOffsets (key 92): a share group without members forgets topics, with their states (KIP-932).

Version 0. Answered when the share coordinators have deleted the states. A topic of which the group has none is answered
with UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.share_groups import delete_share_group_offsets as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from purgatorio.protocol.parts import failed
from purgatorio.protocol.primitives import ZERO_UUID


def handle(groups: Groups, ctx: RequestContext, request: DeleteShareGroupOffsetsRequest, reply: Reply) -> None:
    """Delete what the group knows of each topic."""
    image = groups.image
    names = [topic.topic_name for topic in request.topics]

    def done(failures: Mapping[str, ErrorCode]) -> None:
        responses = []
        for name in names:
            topic, error_code = image.topics.get(name), failures.get(name, ErrorCode.NONE)
            responses.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=ZERO_UUID if topic is None else topic.topic_id,
                    error_code=error_code,
                    error_message=_message(error_code),
                )
            )
        reply(DeleteShareGroupOffsetsResponse(responses=responses))

    try:
        groups.share.offsets.delete(request.group_id, names, done)
    except CoordinatorError as error:
        response: DeleteShareGroupOffsetsResponse = failed(ApiKey.DELETE_SHARE_GROUP_OFFSETS, request, error.error_code)
        response.error_message = str(error)
        reply(response)


def _message(error_code: ErrorCode) -> str | None:
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "There is no offset information to delete."
    return error_code.name if error_code else None


API: Final = ApiHandler(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=0,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
