"""Records that are given up: rejected, or delivered too often. With dead letters (KIP-1191) they are copied first."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.late import dataclass
from purgatorio.protocol.share_state import SharePartitionKey


class GiveUpCause(enum.Enum):
    """Why records are given up."""

    REJECTED = "rejected"
    """A member has rejected them."""
    DELIVERY_LIMIT = "delivery limit"
    """They were delivered share.delivery.count.limit times."""
    RESUMED = "resumed"
    """A leader before this one has given them up, and may not have copied them."""


class Archived(NamedTuple):
    """Neighbouring records whose ARCHIVING has ended.

    Attributes:
        is_dead_letter: whether they are in the dead-letter topic.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    is_dead_letter: bool


class RecordsOwner(Protocol):
    """The share partition whose records are given up.

    Attributes:
        tp: the partition by its name.
        leader_epoch: that in which it was loaded; a leader of a later epoch begins anew.
    """

    key: SharePartitionKey
    tp: TopicPartition
    leader_epoch: int

    def archived(self, ranges: Sequence[Archived]) -> None:
        """End ARCHIVING for records that are copied to the dead-letter topic, or that cannot be."""
        ...


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


class DeadLetters(Protocol):
    """The destination of records that share partitions give up."""

    @property
    def counts(self) -> DeadLetterCounts:
        """How many there were, by group."""

    def wanted(self, group_id: str) -> bool:
        """Return whether a group's records that are given up now are to be copied: they are ARCHIVING until then."""
        ...

    def give_up(
        self, owner: RecordsOwner, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause
    ) -> None:
        """Copy records that are ARCHIVING; `RecordsOwner.archived` ends that, later."""
        ...


class NoDeadLetters:
    """Dead letters are off."""

    counts: Final = DeadLetterCounts()

    def wanted(self, group_id: str) -> bool:
        """Archive them at once."""
        return False

    def give_up(
        self, owner: RecordsOwner, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause
    ) -> None:
        """Leave those of an earlier leader as they are: nothing copies them."""


NO_DEAD_LETTERS: Final = NoDeadLetters()
