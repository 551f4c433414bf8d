"""The sessions of the members of share groups with their coordinator; share sessions are those with leaders."""

from __future__ import annotations

from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.share.member import ShareMember
from purgatorio.broker.group.share.share_group import ShareGroup


class ShareMemberSessions(MemberSessions[ShareGroup]):
    """Begins and ends the sessions of members of share groups."""

    def _timeout_ms(self, group: ShareGroup, member: ShareMember) -> int:
        return self._services.share_settings.of(group.group_id).session_timeout_ms

    def _longest_interval_ms(self, group: ShareGroup) -> int:
        return self._services.share_settings.of(group.group_id).heartbeat_interval_ms
