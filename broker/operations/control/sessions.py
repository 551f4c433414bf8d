"""The sessions of groups' members, which an operator can end before their time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from purgatorio.broker.group.delayed_heartbeat import MemberKey
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.operations.control.operated import OperatedCluster
from purgatorio.broker.operations.errors import NAMES_COMPARED, NotThere, OperationRefused
from purgatorio.broker.purgatory import DelayedOperation

HEARTBEAT: Final = "Heartbeat"
"""The purgatory in which each member has an operation that expires with its session."""
MEMBERS_NAMED: Final = 10
"""Members that a message names at most."""


def expire_member(cluster: OperatedCluster, group: str, member: str | None) -> str:
    """End the session of a group's member now, as if its heartbeats had stayed away; return its member id.

    Args:
        member: its member id or its client id; None: the only member.

    Raises:
        NotThere: there is no such group with members, or no such member.
        OperationRefused: there is more than one such member; or the member waits for the coordinator's answer, which
            keeps it alive.
    """
    sessions: dict[str, DelayedOperation] = {}
    others: dict[str, None] = {}
    for key, operation in _sessions(cluster):
        if key.group_id == group:
            sessions[key.member_id] = operation
        else:
            others[key.group_id] = None
    if not sessions:
        raise NotThere(f"group {group!r} has no members{nearest(group, islice(others, NAMES_COMPARED))}")
    chosen = _chosen(sessions, group, member)
    if not sessions[chosen].expire():
        raise OperationRefused(f"member {chosen} of {group} waits for its coordinator's answer, which keeps it alive")
    return chosen


def _sessions(cluster: OperatedCluster) -> Iterator[tuple[MemberKey, DelayedOperation]]:
    for broker in cluster.brokers:
        for purgatory in broker.purgatories:
            if purgatory.name != HEARTBEAT:
                continue
            for parked in purgatory.operations(limit=purgatory.num_delayed):
                key, operation = parked.keys[0], purgatory.find(parked.id)
                if isinstance(key, MemberKey) and operation is not None:
                    yield key, operation


def _chosen(sessions: Mapping[str, DelayedOperation], group: str, member: str | None) -> str:
    """Return the member id that is meant: by itself, by its client id, or as the only one."""
    named = [each for each, session in sessions.items() if member in (None, each, session.client)]
    if len(named) == 1:
        return named[0]
    known = ", ".join(f"{each} (client {sessions[each].client})" for each in islice(sessions, MEMBERS_NAMED))
    further = len(sessions) - MEMBERS_NAMED
    told = f"; its members: {known}{f' and {further} more' if further > 0 else ''}"
    if not named:
        raise NotThere(f"group {group!r} has no member {member!r}{told}")
    raise OperationRefused(f"group {group!r} has {len(named)} such members{told}")
