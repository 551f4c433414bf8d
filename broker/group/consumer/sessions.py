"""The timers of members: the session, and the time that a member has to give up partitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatorio.broker.group.config import CONSUMER_HEARTBEAT_INTERVAL, CONSUMER_SESSION_TIMEOUT
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import Member, MemberState
from purgatorio.broker.group.delayed_heartbeat import DelayedHeartbeat, MemberKey
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard

Fence = Callable[[GroupShard, ConsumerGroup, Member, str], bool]
"""Removes a member from its group, for the reason in words; returns whether that could be written."""


RETRY_MS: Final = 500
"""From a member whose removal could not be written to the next attempt."""
SHORTEST_INTERVAL_MS: Final = 250
"""The shortest time between two heartbeats that members are asked for."""
STABLE_BEATS_PER_SECOND: Final = 400
"""Heartbeats that a broker's members may send while there is nothing to tell them."""
RECONCILING_BEATS_PER_SECOND: Final = 1_000
"""Heartbeats that a broker's members may send while partitions move."""


class MemberTimers:
    """Starts and stops the timers of members.

    Args:
        fence: called when a member's time is over.
    """

    def __init__(self, services: GroupServices, fence: Fence) -> None:
        self._services = services
        self._fence = fence
        self._members = 0

    def heartbeat_interval_ms(self, group: ConsumerGroup) -> int:
        """Return when a member of the group shall send its next heartbeat.

        Partitions move at heartbeats: a new member waits until the others have given up its share at theirs. So members
        are asked to send them as often as the broker can afford, for all its members together, and at least every
        group.consumer.heartbeat.interval.ms, or the group's own. Clients adopt the interval of each answer at once.
        """
        rate = STABLE_BEATS_PER_SECOND if group.is_stable else RECONCILING_BEATS_PER_SECOND
        affordable_ms = self._members * 1_000 // rate
        default_ms = self._services.config.consumer_heartbeat_interval_ms
        longest_ms = self._of_group(group, CONSUMER_HEARTBEAT_INTERVAL, default_ms)
        return min(longest_ms, max(SHORTEST_INTERVAL_MS, affordable_ms))

    def _of_group(self, group: ConsumerGroup, name: str, default: int) -> int:
        """Return a config of the group: its own, which was checked when it was set, or the default."""
        configs = self._services.image().group_configs.get(group.group_id)
        return default if configs is None or name not in configs else int(configs[name])

    def renew_session(self, shard: GroupShard, group: ConsumerGroup, member: Member) -> None:
        """Let the member's session begin anew: it has shown that it lives."""
        classic = member.subscription.classic_member_metadata
        if classic is None:
            default_ms = self._services.config.consumer_session_timeout_ms
            timeout_ms = self._of_group(group, CONSUMER_SESSION_TIMEOUT, default_ms)
        else:
            timeout_ms = classic.session_timeout_ms
        if member.session is not None:
            member.session.session_timeout_ms = timeout_ms
            member.session.beat()
            return
        self._members += 1
        member.session = DelayedHeartbeat(
            self._services.heartbeat_purgatory,
            MemberKey(group.group_id, member.member_id),
            timeout_ms,
            expired=partial(self._over, shard, group, member, "its session has ended"),
        ).start(member.subscription.client_id)

    def watch_revocation(self, shard: GroupShard, group: ConsumerGroup, member: Member) -> None:
        """Give the member its rebalance timeout to give up partitions, if its new assignment says that it has to.

        Members of the classic protocol have it to join again, and to sync (see `expect`).
        """
        if member.is_classic:
            return
        self.expect_no_more(member)
        if member.current.state is MemberState.UNREVOKED:
            self.expect(shard, group, member, "it has not given up partitions in time")

    def expect(self, shard: GroupShard, group: ConsumerGroup, member: Member, otherwise: str) -> None:
        """Give the member its rebalance timeout to do something, unless it runs already; `otherwise` is why it goes."""
        if member.revocation is None:
            over = partial(self._over, shard, group, member, otherwise)
            timeout_ms = max(1, member.subscription.rebalance_timeout_ms)
            member.revocation = self._services.timer.call_later(timeout_ms, over)

    @staticmethod
    def expect_no_more(member: Member) -> None:
        """Stop waiting for what a member was expected to do: it has done it."""
        if member.revocation is not None:
            member.revocation.cancel()
            member.revocation = None

    def start(self, shard: GroupShard, group: ConsumerGroup, member: Member) -> None:
        """Start the timers of a member that was loaded."""
        self.renew_session(shard, group, member)
        self.watch_revocation(shard, group, member)

    def stop(self, member: Member) -> None:
        """Stop the timers of a member that has gone, or that another broker looks after now."""
        if member.session is not None:
            member.session.end()
            self._members -= 1
        self.expect_no_more(member)
        member.session = None

    def _over(self, shard: GroupShard, group: ConsumerGroup, member: Member, why: str) -> None:
        if not shard.is_active or group.members.get(member.member_id) is not member:
            return
        if not self._fence(shard, group, member, why):
            self._services.timer.call_later(RETRY_MS, self._over, shard, group, member, why)
