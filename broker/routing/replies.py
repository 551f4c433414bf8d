"""Replies that change, drop or withhold what the handler answers, for the layers that stand before handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api import EncodedResponse, decode_response, encode_response


class AlteredReply:
    """A reply that passes each response through a function first.

    Args:
        alter: gets the response message, and returns the one to send.
    """

    __slots__ = ("_alter", "_ctx", "_reply")

    def __init__(self, ctx: RequestContext, reply: Reply, alter: Callable[[Any], Any]) -> None:
        self._ctx = ctx
        self._reply = reply
        self._alter = alter

    def __call__(self, response: Any) -> None:
        """Send the altered response."""
        self._reply(self._alter(message_of(self._ctx, response)))

    def nothing(self) -> None:
        """Send nothing: there is no answer to alter."""
        self._reply.nothing()

    def close(self, reason: str) -> None:
        """Close the connection, as the handler wants."""
        self._reply.close(reason)


class DelayedReply:
    """A reply whose response is sent later; only then is it encoded.

    Args:
        later: has a function called later.
    """

    __slots__ = ("_later", "_reply")

    def __init__(self, reply: Reply, later: Callable[[Callable[[], None]], object]) -> None:
        self._reply = reply
        self._later = later

    def __call__(self, response: Any) -> None:
        """Send the response later."""
        self._later(lambda: self._reply(response))

    def nothing(self) -> None:
        """Send nothing, at once."""
        self._reply.nothing()

    def close(self, reason: str) -> None:
        """Close the connection at once, as the handler wants."""
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


def message_of(ctx: RequestContext, response: Any) -> Any:
    """Return a response as a message; a handler may have encoded it."""
    if not isinstance(response, EncodedResponse):
        return response
    frame = b"".join(encode_response(ctx.api_key, ctx.api_version, 0, response))[4:]
    return decode_response(ctx.api_key, ctx.api_version, frame)[1]
