"""How many dead letters there were, by share group, under Kafka's names."""

from __future__ import annotations

from typing import Final

from purgatorio.late import dataclass

MAX_GROUPS: Final = 500
"""The most groups of a broker that are counted by themselves."""
OTHER_GROUPS: Final = "(others)"
"""Stands for the groups beyond these."""


@dataclass(slots=True)
class DeadLetterCount:
    """The numbers of one group.

    Attributes:
        records: the dead letters that were written (DeadLetterQueueRecordCount).
        requests: the requests to write some (DeadLetterQueueTotalProduceRequestsPerSec).
        failures: those after whose failure some were given up (DeadLetterQueueFailedProduceRequestsPerSec).
    """

    records: int = 0
    requests: int = 0
    failures: int = 0


class DeadLetterCounts:
    """The numbers of all groups whose records one broker has given up.

    Attributes:
        by_group: by the group's id.
    """

    def __init__(self) -> None:
        self.by_group: dict[str, DeadLetterCount] = {}

    def of(self, group_id: str) -> DeadLetterCount:
        """Return the numbers of a group, to be changed."""
        by_group = self.by_group
        if group_id not in by_group and len(by_group) >= MAX_GROUPS:
            group_id = OTHER_GROUPS
        return by_group.setdefault(group_id, DeadLetterCount())
