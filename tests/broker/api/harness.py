"""Helpers of the tests of handlers that append and read records."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.routing.request import RequestContext, Session


class Replies:
    """A `Reply` that records the calls: a response, None for nothing, or the reason of a close."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def __call__(self, response: Any) -> None:
        self.said.append(response)

    def nothing(self) -> None:
        self.said.append(None)

    def close(self, reason: str) -> None:
        self.said.append(reason)

    @property
    def only(self) -> Any:
        (said,) = self.said
        return said


def context(api_key: int, version: int, listener: str = "PLAINTEXT") -> RequestContext:
    session = Session(connection_id="c", listener=listener, host="127.0.0.1", peer="127.0.0.1:1")
    return RequestContext(session, "test", api_key, version, 0)
