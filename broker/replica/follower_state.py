"""The leader's view of one follower of a partition."""

# compiled: docs/compiled.md

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class FollowerState:
    """The leader's view of one follower.

    Attributes:
        broker_epoch: the incarnation of the follower that the other attributes describe; -1 before its first fetch.
        log_end_offset: the follower's last fetch offset; -1 before its first fetch in this leader epoch.
        last_fetch_ms: monotonic time of its last fetch; -1 before the first.
        last_caught_up_ms: monotonic time at which it was last caught up; at first, the start of the leadership.
        last_fetch_leader_end_offset: the leader's log end offset at its last fetch.
        last_sent_high_watermark: the high watermark in the last response to it.
    """

    broker_id: int
    last_caught_up_ms: int = -1
    broker_epoch: int = -1
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = -1
    last_fetch_leader_end_offset: int = UNKNOWN_OFFSET
    last_sent_high_watermark: int = UNKNOWN_OFFSET

    def fetched(self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a fetch.

        The follower is caught up if it reached the leader's log end offset. If it reached the log end offset as of its
        previous fetch, it was caught up at that time: thus it stays in sync under a steady stream of appends.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif fetch_offset >= self.last_fetch_leader_end_offset >= 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_ms = now_ms
        self.last_fetch_leader_end_offset = leader_end_offset

    def why_behind(self, leader_end_offset: int) -> str:
        """Return how far behind the follower is, and whether it fetches all the same."""
        if self.log_end_offset < 0:
            return f"broker {self.broker_id} has not fetched in this leader epoch"
        where = f"broker {self.broker_id} is at {self.log_end_offset} of {leader_end_offset}"
        fetched_ms = self.last_fetch_ms - self.last_caught_up_ms
        if fetched_ms <= 0:
            return f"{where} and has not fetched since it was level"
        return f"{where} and fetched for another {fetched_ms} ms: it is too slow, or cannot append, as its own log says"
