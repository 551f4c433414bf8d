"""When and how the target assignment of a group is made."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from purgatorio.broker.group.modern.modern_group import ModernGroup
from purgatorio.broker.group.modern.update import ModernUpdate
from purgatorio.broker.group.shard import GroupShard

TOPICS_AT_ONCE: Final = 1_000
"""Up to this many topics, a heartbeat begins an epoch and makes its target assignment at once: some milliseconds."""
ASSIGNMENT_TRIES: Final = 3
"""How often the target assignment of a group of very many topics is begun, if others change the group meanwhile."""
MEMBERS_ASSIGNED_AT_ONCE: Final = 100
"""Up to this many members, each change gets a target assignment of its own."""
ASSIGNMENT_MS_PER_MEMBER: Final = 1
"""In larger groups, the time between two target assignments, for each member: making one takes some microseconds for
each, and when a thousand members join at once, not each of them is worth one."""

M = TypeVar("M")
U = TypeVar("U", bound=ModernUpdate[Any, Any])


def is_due(group: ModernGroup[Any], now_ms: int, interval_ms: int = 0) -> bool:
    """Return whether a target assignment may be made now: in a large group, not for each member that comes or goes.

    Args:
        interval_ms: the shortest time between two in any group (KIP-1263).
    """
    size = len(group.members)
    if size > MEMBERS_ASSIGNED_AT_ONCE:
        interval_ms = max(interval_ms, size * ASSIGNMENT_MS_PER_MEMBER)
    return group.assigned_ms is None or now_ms - group.assigned_ms >= interval_ms


def assign_in_steps(
    begin: Callable[[], tuple[GroupShard, M, U]],
    is_kept: Callable[[ModernGroup[Any]], bool],
    wall_ms: Callable[[], int],
) -> Generator[None, None, tuple[GroupShard, M, U]]:
    """Make the target assignment of a group of very many topics, if no other member did.

    Args:
        begin: returns the shard, the member for which it is made, and a new update; raises what this raises.
        is_kept: returns whether this broker still coordinates a group; raises what this raises.

    Returns:
        The last update, with its shard and member; without an assignment if the group changes all the time.
    """
    for _ in range(ASSIGNMENT_TRIES):
        found = begin()
        update = found[-1]
        group, nth = update.group, update.group.appended
        is_same = True
        for _ in update.assign_in_steps(wall_ms()) if update.epoch > update.target_epoch else ():
            yield
            is_same = is_kept(group) and group.appended == nth
            if not is_same:
                break
        if is_same:
            return found
    return begin()  # a later heartbeat makes the assignment
