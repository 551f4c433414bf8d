"""The states of a classic group, and the table of their transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a classic group; the values are Kafka's names."""

    EMPTY = "Empty"
    """No members; perhaps committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The members shall join again; their joins are parked until all have, or the rebalance timeout is over."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members know their generation, and wait for the assignment that the leader sends with its sync."""
    STABLE = "Stable"
    """The assignment is committed."""
    DEAD = "Dead"
    """This broker does not coordinate the group any more, or the group was deleted."""


TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state, those that may follow."""
