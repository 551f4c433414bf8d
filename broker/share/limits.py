"""What a share group's configs say about its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

NEVER_ISOLATED_BELOW: Final = 2
"""The fewest deliveries from which on records are delivered in ever smaller parts, and the delivery limit up to which
the last delivery is no special one."""


class ShareLimits(NamedTuple):
    """The configs of a share group that its partitions go by, with Kafka's defaults.

    Attributes:
        record_lock_duration_ms: share.record.lock.duration.ms: how long a member has acquired records for.
        delivery_count_limit: share.delivery.count.limit: after so many deliveries without success a record is given up.
        max_record_locks: share.partition.max.record.locks: the most records from the start offset to the end offset.
        renew_enabled: share.renew.acknowledge.enable: whether members may renew their locks (KIP-1222).
    """

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renew_enabled: bool = True

    @property
    def isolation_count(self) -> int:
        """The deliveries from which on a record is delivered with fewer others each time (KIP-1206)."""
        return max(NEVER_ISOLATED_BELOW, -(-self.delivery_count_limit // 2))

    def is_last_attempt(self, delivery_count: int) -> bool:
        """Return whether a record that was delivered so often has one more attempt, in which it is alone."""
        limit = self.delivery_count_limit
        return limit > NEVER_ISOLATED_BELOW and delivery_count == limit - 1


ReadLimits = Callable[[], ShareLimits]
"""Returns the limits of a group now: its configs change while it runs."""
