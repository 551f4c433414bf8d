"""One request on its way through the broker: its place in the order of answers, and the `Reply` of its handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from purgatorio.broker.request import Session
from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import get_logger
from purgatorio.protocol.api import encode_response
from purgatorio.protocol.primitives import Buffer

_log = get_logger(__name__)


class Owner(Protocol):
    """The connection that a request came by, as far as the request is concerned."""

    session: Session
    closed: bool

    def answered(self, exchange: Exchange) -> None:
        """`exchange` has its answer now, which is to leave when all earlier ones have left."""
        ...

    def refused(self, exchange: Exchange, reason: Refusal, detail: str) -> None:
        """The connection is to close, in place of an answer, when the answers of all earlier requests have left."""
        ...


class Exchange:
    """A request and, once there is one, its encoded answer.

    Attributes:
        request_bytes: size on the wire, the four bytes of the length included.
        received_seconds: when its last byte had arrived, by the listener's clock.
        parts: the encoded answer; empty where none is sent, None until there is one.
        answer_bytes: size of `parts`.
        is_refused: the connection closes in place of an answer.
    """

    __slots__ = (
        "_owner",
        "answer_bytes",
        "api_key",
        "api_version",
        "correlation_id",
        "is_refused",
        "parts",
        "received_seconds",
        "request_bytes",
    )

    def __init__(self, owner: Owner, request_bytes: int, received_seconds: float) -> None:
        self._owner = owner
        self.request_bytes = request_bytes
        self.received_seconds = received_seconds
        self.api_key = -1
        self.api_version = -1
        self.correlation_id = 0
        self.parts: Sequence[Buffer] | None = None
        self.answer_bytes = 0
        self.is_refused = False

    def __call__(self, response: Any) -> None:
        """Answer with `response`."""
        if self._is_over():
            return
        try:
            parts = encode_response(self.api_key, self.api_version, self.correlation_id, response)
        except Exception as error:  # the handler's bug, raised here into a bystander that completed its operation
            _log.exception("answer cannot be encoded", api_key=self.api_key, api_version=self.api_version)
            self.refuse(Refusal.INTERNAL_ERROR, f"the answer cannot be encoded: {error}")
            return
        self.answer_bytes = sum(map(len, parts))
        self.parts = parts
        self._owner.answered(self)

    def nothing(self) -> None:
        """Answer with no bytes at all."""
        if not self._is_over():
            self.parts = ()
            self._owner.answered(self)

    def close(self, reason: str) -> None:
        """Close the connection, once the answers of all earlier requests have left."""
        self.refuse(Refusal.CLOSED_BY_HANDLER, reason)

    def refuse(self, reason: Refusal, detail: str) -> None:
        """As `close`, for one of the reasons of the server itself."""
        if not self._is_over():
            self.parts = ()
            self.is_refused = True
            self._owner.refused(self, reason, detail)

    def _is_over(self) -> bool:
        """Whether an answer can make no difference any more; a second one is a bug, which the client must not feel."""
        if self._owner.closed:
            return True
        if self.parts is not None:
            _log.error("request answered twice", peer=self._owner.session.peer, api_key=self.api_key, stack_info=True)
            return True
        return False
