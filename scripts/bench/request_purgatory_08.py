"""A small model of the purgatory that Kafka 0.8 had: one delay queue of requests plus watch lists by key.

A satisfied request is only marked; it stays in the queue and in its lists until a purge, after every so many requests,
scans all of them. It is here to be measured against, and does nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence

PURGE_INTERVAL = 1000


class DelayedRequest08:
    """A request that waits; the answer sets `satisfied`."""

    __slots__ = ("deadline_ms", "satisfied")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.satisfied = False


class RequestPurgatory08:
    """The requests that wait.

    Args:
        purge_interval: requests between two purges.
    """

    def __init__(self, purge_interval: int = PURGE_INTERVAL) -> None:
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, list[DelayedRequest08]] = {}
        self._delayed: list[tuple[int, int, DelayedRequest08]] = []
        self._sequence = 0
        self._since_purge = 0

    def watch(self, request: DelayedRequest08, keys: Sequence[Hashable]) -> None:
        """Watch a request under its keys until its deadline."""
        for key in keys:
            self._watchers.setdefault(key, []).append(request)
        self._sequence += 1
        heapq.heappush(self._delayed, (request.deadline_ms, self._sequence, request))
        self._since_purge += 1
        if self._since_purge >= self._purge_interval:
            self._purge()

    def expire(self, now_ms: int) -> int:
        """Answer the requests that are due; returns their number."""
        delayed, expired = self._delayed, 0
        while delayed and delayed[0][0] <= now_ms:
            request = heapq.heappop(delayed)[2]
            if not request.satisfied:
                request.satisfied = True
                expired += 1
        return expired

    def _purge(self) -> None:
        self._since_purge = 0
        self._delayed = [item for item in self._delayed if not item[2].satisfied]
        heapq.heapify(self._delayed)
        for key, watched in list(self._watchers.items()):
            left = [request for request in watched if not request.satisfied]
            if left:
                self._watchers[key] = left
            else:
                del self._watchers[key]
