"""What assignors get and return: pure functions of members and topics, in steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions

TopicId = bytes
Partition = tuple[TopicId, int]

STEP: Final = 4_000
"""How many subscriptions to a topic, or partitions, a step looks at: some milliseconds."""


class AssignedMember(NamedTuple):
    """A member, as assignors see it.

    Attributes:
        instance_id: the name of a static member (KIP-345); None for a dynamic member.
        topics: the ids of the topics that it subscribes to and that exist, ascending.
        target: what it shall have until now.
    """

    member_id: str
    instance_id: str | None
    topics: tuple[TopicId, ...]
    target: Partitions = NO_PARTITIONS


Assignment = Generator[None, None, dict[str, Partitions]]
"""Returns what each member shall have, by member id, after its steps."""


class Work:
    """Counts work, to tell when a step has done enough of it."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_enough(self, amount: int) -> bool:
        """Add to the work; return whether the step is over."""
        self._done += 1 + amount
        if self._done < STEP:
            return False
        self._done = 0
        return True
