"""The sessions of members, and how often these send heartbeats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat, MemberKey
from purgatorio.broker.group.modern.modern_group import ModernGroup
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard

G = TypeVar("G", bound=ModernGroup[Any])

Fence = Callable[[GroupShard, G, Any, str], bool]
"""Removes a member from its group, for the reason in words; returns whether that could be written."""


RETRY_MS: Final = 500
"""From a member whose removal could not be written to the next attempt."""
SHORTEST_INTERVAL_MS: Final = 250
"""The shortest time between two heartbeats that members are asked for."""
STABLE_BEATS_PER_SECOND: Final = 400
"""Heartbeats that a broker's members may send while no partitions move."""
RECONCILING_BEATS_PER_SECOND: Final = 1_000
"""Heartbeats that a broker's members may send while partitions move."""


class MemberSessions(ABC, Generic[G]):
    """Begins and ends the sessions of the members of one kind of group.

    Attributes:
        fence: called when a member's time is over; set before the first session begins.
    """

    fence: Fence[G]

    def __init__(self, services: GroupServices) -> None:
        self._services = services

    @abstractmethod
    def _timeout_ms(self, group: G, member: Any) -> int:
        """Return the time that a heartbeat of a member gives."""

    @abstractmethod
    def _longest_interval_ms(self, group: G) -> int:
        """Return the longest time between two heartbeats of a member."""

    def heartbeat_interval_ms(self, group: G) -> int:
        """Return when a member of the group shall send its next heartbeat.

        Members learn at heartbeats what they have been assigned, and partitions move at heartbeats: a new member of a
        consumer group waits until the others have given up its share at theirs. So members are asked to send them as
        often as the broker can afford, for all its members together, and at least every
        group.consumer.heartbeat.interval.ms or group.share.heartbeat.interval.ms, or the group's own. Clients adopt the
        interval of each answer at once.
        """
        rate = STABLE_BEATS_PER_SECOND if group.is_stable else RECONCILING_BEATS_PER_SECOND
        affordable_ms = self._services.beating.count * 1_000 // rate
        return min(self._longest_interval_ms(group), max(SHORTEST_INTERVAL_MS, affordable_ms))

    def renew(self, shard: GroupShard, group: G, member: Any) -> None:
        """Let the member's session begin anew: it has shown that it lives."""
        timeout_ms = self._timeout_ms(group, member)
        if member.session is not None:
            member.session.session_timeout_ms = timeout_ms
            member.session.beat()
            return
        self._services.beating.count += 1
        member.session = DelayedHeartbeat(
            self._services.heartbeat_purgatory,
            MemberKey(group.group_id, member.member_id),
            timeout_ms,
            expired=partial(self._over, shard, group, member, "its session has ended"),
        ).start(member.subscription.client_id)

    def start(self, shard: GroupShard, group: G, member: Any) -> None:
        """Start the timers of a member that was loaded."""
        self.renew(shard, group, member)

    def stop(self, member: Any) -> None:
        """End the session of a member that has gone, or that another broker looks after now."""
        if member.session is not None:
            member.session.end()
            self._services.beating.count -= 1
        member.session = None

    def _over(self, shard: GroupShard, group: G, member: Any, why: str) -> None:
        if not shard.is_active or group.members.get(member.member_id) is not member:
            return
        if not self.fence(shard, group, member, why):
            self._services.timer.call_later(RETRY_MS, self._over, shard, group, member, why)
