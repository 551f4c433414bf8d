"""Requests to broker 1 as the coordinator of all groups; they travel through the codec."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from purgatorio.broker.routing.request import Reply
from purgatorio.protocol.api import (
    APIS,
    Message,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from tests.broker.api.harness import Replies, context
from tests.broker.group.harness import GroupHarness, offsets_topic
from tests.broker.replica.harness import topic


class Coordinator(GroupHarness):
    """Broker 1 with the topic orders of three partitions; see `GroupHarness`."""

    def __init__(self, replicas: tuple[int, ...] = (1,), **config: int) -> None:
        super().__init__(replicas, **config)
        self.set_topics(offsets_topic(replicas), topic("orders", partitions=3, replicas=(1,)))

    def post(self, api: ModuleType, version: int, request: Message) -> Replies:
        """Send a request; the replies are as the handler made them."""
        api_key = next(key for key, known in APIS.items() if known.request is type(request))
        frame = b"".join(encode_request(api_key, version, 7, "test", request))[4:]
        header, position = decode_request_header(frame)
        replies = Replies()
        reply: Reply = replies
        api.handle(self.groups, context(api_key, version), decode_request(header, frame, position), reply)
        return replies

    def ask(self, api: ModuleType, version: int, request: Message) -> Any:
        """Send a request and return the response as the client decodes it."""
        return travel(version, self.post(api, version, request).only)


def travel(version: int, response: Any) -> Any:
    """Encode and decode a response."""
    api_key = next(key for key, known in APIS.items() if known.response is type(response))
    return decode_response(api_key, version, b"".join(encode_response(api_key, version, 7, response))[4:])[1]
