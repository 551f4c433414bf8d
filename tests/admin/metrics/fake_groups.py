"""The groups of a broker, as the metrics read them."""

from __future__ import annotations

from collections.abc import Iterator

from purgatorio.broker.log.topic_partition import TopicPartition


class FakeGroups:
    """Groups whose states and offsets the test sets."""

    def __init__(self) -> None:
        self.transactional_offset_count = 0
        self.commit_count = 0
        self.expiration_count = 0
        self.group_states: list[str] = []
        self.offsets: list[tuple[str, TopicPartition, int]] = []

    @property
    def offset_count(self) -> int:
        return len(self.offsets)

    def states(self) -> Iterator[str]:
        return iter(self.group_states)

    def committed(self, max_groups: int, max_offsets: int) -> Iterator[tuple[str, TopicPartition, int]]:
        return iter(self.offsets[:max_offsets])
