"""The last rebalances of the groups that a broker coordinates, with their reasons: for people who ask why."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from purgatorio.broker.causes.words import shortened

MAX_GROUPS: Final = 200
"""The groups that rebalanced last."""
MAX_REBALANCES: Final = 5
"""Rebalances of each of them."""
MAX_DETAIL: Final = 300
"""Characters of a detail, and of each id of a departed member."""
MAX_DEPARTED: Final = 20
"""Members of each group that are kept when they leave."""
MAX_ASSIGNMENT: Final = 2_000
"""Bytes of each assignment of those, some 450 partitions: clients choose what is in them, and how much."""


class Rebalance(NamedTuple):
    """A rebalance of a classic group, or a new epoch of another one.

    Attributes:
        at_ms: when it began, on the broker's monotonic clock.
        epoch: the generation before it, or the new epoch.
        member_count: the members at its beginning.
        cause: why, in one of a few words: "join", "leave", "session over" …
        detail: more about it: which member, and the client's own reason.
    """

    at_ms: int
    epoch: int
    member_count: int
    cause: str
    detail: str


class Departed(NamedTuple):
    """The members of a stable classic group as they were when the first of them left.

    Attributes:
        at_ms: when, on the broker's monotonic clock.
        members: of each its member id, its client id, and the bytes of its assignment; of many the first ones. A longer
            assignment is cut, and then cannot be decoded: it is unknown.
    """

    at_ms: int
    members: tuple[tuple[str, str, bytes], ...]


class RebalanceHistory:
    """Keeps the last rebalances of the groups that rebalanced last, and the members of groups that all left.

    It knows no group that this broker does not coordinate: what is kept of a group goes with it.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[Rebalance]] = OrderedDict()
        self._departed: OrderedDict[str, Departed] = OrderedDict()

    def note_departed(self, group_id: str, departed: Departed) -> None:
        """Keep the members of a group, the first of which leaves."""
        self._departed.pop(group_id, None)
        if len(self._departed) == MAX_GROUPS:
            self._departed.popitem(last=False)
        self._departed[group_id] = departed._replace(
            members=tuple(
                (member_id[:MAX_DETAIL], client_id[:MAX_DETAIL], assignment[:MAX_ASSIGNMENT])
                for member_id, client_id, assignment in departed.members[:MAX_DEPARTED]
            )
        )

    def departed(self, group_id: str) -> Departed | None:
        """Return the members of a group before the last departure; None if that is not known."""
        return self._departed.get(group_id)

    def note(self, group_id: str, rebalance: Rebalance) -> None:
        """Keep a rebalance that begins."""
        of_group = self._groups.pop(group_id, None)
        if of_group is None:
            of_group = deque(maxlen=MAX_REBALANCES)
            if len(self._groups) == MAX_GROUPS:
                self._groups.popitem(last=False)
        of_group.append(rebalance._replace(detail=rebalance.detail[:MAX_DETAIL]))
        self._groups[group_id] = of_group

    def of(self, group_id: str) -> Sequence[Rebalance]:
        """Return the last rebalances of a group, oldest first."""
        return tuple(self._groups.get(group_id, ()))

    def forget(self, group_id: str) -> None:
        """Keep nothing of a group that was deleted, or that another broker coordinates now."""
        self._groups.pop(group_id, None)
        self._departed.pop(group_id, None)


def named(members: Sequence[str]) -> str:
    """Return the names of members as the detail of a rebalance, of many the first one."""
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"member {shortened(members[0])}{more}" if members else ""
