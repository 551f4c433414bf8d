"""A delayed operation of a request to the leaders of partitions: how it ends for those that are still pending."""

from __future__ import annotations

from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import DelayedOperation


class LeadersAnswer(DelayedOperation):
    """Waits until each partition of a request has its answer; at the deadline the others answer REQUEST_TIMED_OUT."""

    __slots__ = ()

    def fail(self, error_code: ErrorCode) -> None:
        """Answer the request, with this error for the partitions that are still pending."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Complete with REQUEST_TIMED_OUT for the partitions that are still pending."""
        self.fail(ErrorCode.REQUEST_TIMED_OUT)

    def on_shutdown(self) -> None:
        """Complete with NOT_LEADER_OR_FOLLOWER, after which a client finds the new leader and retries."""
        self.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_error(self, error: Exception) -> None:
        """Complete with UNKNOWN_SERVER_ERROR for the partitions that are still pending."""
        self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
