"""Records that are given up: rejected, or delivered too often. With dead letters (KIP-1191) they are copied first."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.dead_letters.counts import DeadLetterCounts
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
