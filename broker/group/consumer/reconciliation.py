"""How a member gets from what it owns to what it shall own, at its own heartbeats (KIP-848, "reconciliation").

A member first gives up what it must not keep (UNREVOKED). When it says that it has, it moves to the epoch of the target
assignment and gets those of its partitions that are free; for the others it waits (UNRELEASED), until the members that
hold them have given them up. No partition is ever held by two members, whatever order their heartbeats come in.
"""

from __future__ import annotations

from purgatorio.broker.group.consumer.member import CurrentAssignment, MemberState, Owners
from purgatorio.broker.group.consumer.partitions import NO_PARTITIONS, Partitions, common, minus, union


def reconcile(
    member_id: str,
    current: CurrentAssignment,
    *,
    target_epoch: int,
    target: Partitions,
    reported: Partitions | None,
    owners: Owners,
) -> CurrentAssignment:
    """Return the next assignment of a member; `current` itself if nothing changes.

    Args:
        member_id: the member.
        current: its present assignment.
        target_epoch: the epoch of the target assignment.
        target: what it shall own.
        reported: what it says that it owns; None: as before.
        owners: what all members hold.
    """
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED and _still_owns(current.revoking, reported):
        return current
    kept = common(current.assigned, target)
    revoking = minus(current.assigned, kept)
    if revoking and _still_owns(revoking, reported):
        return CurrentAssignment(current.epoch, current.previous_epoch, MemberState.UNREVOKED, kept, revoking)
    missing = minus(target, kept)
    free = owners.free(missing, member_id)
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
    previous_epoch = current.previous_epoch if current.epoch == target_epoch else current.epoch
    following = CurrentAssignment(target_epoch, previous_epoch, state, union(kept, free), NO_PARTITIONS)
    return current if following == current else following


def _still_owns(revoking: Partitions, reported: Partitions | None) -> bool:
    """Whether the member may still own partitions that it has to give up; it must say that it does not."""
    return reported is None or bool(common(revoking, reported))
