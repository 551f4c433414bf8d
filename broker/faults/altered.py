"""Replies that change, drop or withhold what the handler answers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api import EncodedResponse, decode_response, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode


class AlteredReply:
    """A reply that passes each response through a function first.

    Args:
        reply: the request's.
        alter: gets the response message, and returns the one to send.
    """

    __slots__ = ("_alter", "_ctx", "_reply")

    def __init__(self, ctx: RequestContext, reply: Reply, alter: Callable[[Any], Any]) -> None:
        self._ctx = ctx
        self._reply = reply
        self._alter = alter

    def __call__(self, response: Any) -> None:
        """Send the altered response."""
        self._reply(self._alter(_message(self._ctx, response)))

    def nothing(self) -> None:
        """Send nothing: there is no answer to alter."""
        self._reply.nothing()

    def close(self, reason: str) -> None:
        """Close the connection, as the handler wants."""
        self._reply.close(reason)


class LostReply:
    """A reply that sends nothing of what the handler answers.

    Args:
        instead: called once the work is done.
    """

    __slots__ = ("_instead",)

    def __init__(self, instead: Callable[[], object]) -> None:
        self._instead = instead

    def __call__(self, response: Any) -> None:
        """Lose the response."""
        self._instead()

    def nothing(self) -> None:
        """Act as for a response."""
        self._instead()

    def close(self, reason: str) -> None:
        """Act as for a response."""
        self._instead()


def throttled(response: Any, throttle_ms: int) -> Any:
    """Return the response with a throttle time, if it has a place for one."""
    if throttle_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return response


def failed_topics(response: Any, topics: Collection[str] | None, error: ErrorCode) -> Any:
    """Return a Metadata response whose topics, these or all, have an error instead of partitions."""
    for topic in response.topics:
        if topics is None or topic.name in topics:
            topic.error_code, topic.partitions = error, []
    return response


def corrupted(ctx: RequestContext, response: Any) -> Any:
    """Return a damaged response: a bit of some records is wrong; without records, its second half is missing."""
    if ctx.api_key == ApiKey.FETCH:
        for topic in response.responses:
            for partition in topic.partitions:
                records = partition.records
                data = bytearray(records if isinstance(records, (bytes, memoryview)) else b"".join(records or ()))
                if data:
                    data[-1] ^= 1
                    partition.records = bytes(data)
                    return response
    encoded = b"".join(encode_response(ctx.api_key, ctx.api_version, 0, response))
    prefix = len(b"".join(encode_response(ctx.api_key, ctx.api_version, 0, EncodedResponse(b""))))
    message = encoded[prefix:]
    return EncodedResponse(message[: len(message) // 2])


def _message(ctx: RequestContext, response: Any) -> Any:
    """Return a response as a message; a handler may have encoded it."""
    if not isinstance(response, EncodedResponse):
        return response
    frame = b"".join(encode_response(ctx.api_key, ctx.api_version, 0, response))[4:]
    return decode_response(ctx.api_key, ctx.api_version, frame)[1]
