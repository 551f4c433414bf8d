"""The timers of members: the session, and the time that a member has to give up partitions."""

from __future__ import annotations

from functools import partial

from purgatorio.broker.group.config import CONSUMER_HEARTBEAT_INTERVAL, CONSUMER_SESSION_TIMEOUT
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import Member, MemberState
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.shard import GroupShard


class MemberTimers(MemberSessions[ConsumerGroup]):
    """Starts and stops the timers of the members of consumer groups."""

    def _longest_interval_ms(self, group: ConsumerGroup) -> int:
        default_ms = self._services.config.consumer_heartbeat_interval_ms
        return self._of_group(group, CONSUMER_HEARTBEAT_INTERVAL, default_ms)

    def _timeout_ms(self, group: ConsumerGroup, member: Member) -> int:
        classic = member.subscription.classic_member_metadata
        if classic is not None:
            return classic.session_timeout_ms
        return self._of_group(group, CONSUMER_SESSION_TIMEOUT, self._services.config.consumer_session_timeout_ms)

    def _of_group(self, group: ConsumerGroup, name: str, default: int) -> int:
        """Return a config of the group: its own, which was checked when it was set, or the default."""
        configs = self._services.image().group_configs.get(group.group_id)
        return default if configs is None or name not in configs else int(configs[name])

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
        self.renew(shard, group, member)
        self.watch_revocation(shard, group, member)

    def stop(self, member: Member) -> None:
        """Stop the timers of a member that has gone, or that another broker looks after now."""
        super().stop(member)
        self.expect_no_more(member)
