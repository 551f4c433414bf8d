"""Records that are given up: rejected, or delivered too often. With dead letters (KIP-1191) they are copied first."""

from __future__ import annotations

import enum
from typing import Final, Protocol


class GiveUpCause(enum.Enum):
    """Why records are given up."""

    REJECTED = "rejected"
    """A member has rejected them."""
    DELIVERY_LIMIT = "delivery limit"
    """They were delivered share.delivery.count.limit times."""
    RESUMED = "resumed"
    """A leader before this one has given them up, and may not have copied them."""


class DeadLetters(Protocol):
    """What becomes of records of a share partition that are given up."""

    def wanted(self) -> bool:
        """Return whether records that are given up now are to be copied: they are ARCHIVING until they are."""
        ...

    def give_up(self, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause) -> None:
        """Copy records that are ARCHIVING; `SharePartition.archived` ends that."""
        ...


class NoDeadLetters:
    """Dead letters are off."""

    def wanted(self) -> bool:
        """Archive them at once."""
        return False

    def give_up(self, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause) -> None:
        """Leave those of an earlier leader as they are: nothing copies them."""


NO_DEAD_LETTERS: Final = NoDeadLetters()
