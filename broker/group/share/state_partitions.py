"""The share partitions of a group, by how far the share coordinators are with their states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final, NamedTuple

from purgatorio.broker.group.memory import ENTRY_BYTES, text_bytes
from purgatorio.broker.group.modern.partitions import PARTITION_BYTES, Partitions
from purgatorio.late import dataclass
from purgatorio.protocol.group_records import ShareGroupStatePartitionMetadataValue, TopicInfo, TopicPartitionsInfo
from purgatorio.protocol.share_state import NO_START_OFFSET


class NamedPartitions(NamedTuple):
    """Some partitions of one topic, with the topic's name."""

    name: str
    numbers: frozenset[int]


Topics = Mapping[bytes, NamedPartitions]
"""Partitions by topic id; none is empty. Never changed: a change makes a new mapping."""

_NOTHING: Final = NamedPartitions("", frozenset())


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The share partitions of a group; each change makes a new object.

    Attributes:
        initializing: those whose state was asked for; only initialized ones are assigned.
        initialized: those that have a state.
        deleting: the topics whose state is to be deleted, with their names.
    """

    initializing: Topics = field(default_factory=dict)
    initialized: Topics = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    # --- records ---

    @staticmethod
    def of_record(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
        """Return the share partitions of a record."""
        return StatePartitions(
            _from_wire(value.initializing_topics),
            _from_wire(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )

    def record(self) -> ShareGroupStatePartitionMetadataValue:
        """Return the value of its record."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_to_wire(self.initializing),
            initialized_topics=_to_wire(self.initialized),
            deleting_topics=[TopicInfo(topic_id=key, topic_name=name) for key, name in sorted(self.deleting.items())],
        )

    @property
    def size_bytes(self) -> int:
        """The bytes that it takes."""
        of_topics = [each for topics in (self.initializing, self.initialized) for each in topics.values()]
        size_bytes = sum(
            2 * ENTRY_BYTES + text_bytes(name) + PARTITION_BYTES * len(numbers) for name, numbers in of_topics
        )
        return size_bytes + sum(ENTRY_BYTES + text_bytes(name) for name in self.deleting.values())

    # --- questions ---

    @property
    def topic_ids(self) -> frozenset[bytes]:
        """The ids of all topics in it."""
        return frozenset((*self.initializing, *self.initialized, *self.deleting))

    def known(self, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic that have a state, or will have one perhaps."""
        return self.initialized.get(topic_id, _NOTHING).numbers | self.initializing.get(topic_id, _NOTHING).numbers

    def missing(self, topic_id: bytes, count: int) -> frozenset[int]:
        """Return those of the first `count` partitions of a topic that have no state."""
        return frozenset(range(count)) - self.initialized.get(topic_id, _NOTHING).numbers

    def new_start_offset(self, topic_id: bytes, number: int) -> int:
        """Return where a partition without a state begins: 0 if it came to a topic that the group knew already.

        A group that begins with the latest records so loses none of those that came to a new partition before the
        partition was noticed (KAFKA-20742). Otherwise the leader chooses, by share.auto.offset.reset.
        """
        if number in self.initializing.get(topic_id, _NOTHING).numbers or not self.known(topic_id):
            return NO_START_OFFSET
        return 0

    # --- changes ---

    def begin(self, asked: Topics) -> StatePartitions:
        """Note partitions whose state is asked for; it is not deleted any more."""
        deleting = {key: name for key, name in self.deleting.items() if key not in asked}
        return replace(self, initializing=_joined(self.initializing, asked), deleting=deleting)

    def end(self, asked: Partitions, *, names: Mapping[bytes, str], failed: Partitions) -> StatePartitions:
        """Note the answers for partitions whose state was asked for: all have it now, but those that have failed."""
        done = {
            key: NamedPartitions(names[key], rest)
            for key, numbers in asked.items()
            if (rest := numbers - failed.get(key, frozenset()))
        }
        return replace(
            self, initializing=_without(self.initializing, asked), initialized=_joined(self.initialized, done)
        )

    def delete(self, topic_ids: Iterable[bytes]) -> StatePartitions:
        """Note that the state of whole topics is to be deleted; those that are not in it are left out."""
        gone = {key: name for key in topic_ids if (name := self._name(key)) is not None}
        return StatePartitions(
            {key: each for key, each in self.initializing.items() if key not in gone},
            {key: each for key, each in self.initialized.items() if key not in gone},
            {**self.deleting, **gone},
        )

    def deleted(self, topic_ids: Iterable[bytes]) -> StatePartitions:
        """Note that the state of topics is deleted."""
        gone = frozenset(topic_ids)
        return replace(self, deleting={key: name for key, name in self.deleting.items() if key not in gone})

    def _name(self, topic_id: bytes) -> str | None:
        found = self.initialized.get(topic_id) or self.initializing.get(topic_id)
        return self.deleting.get(topic_id) if found is None else found.name


NO_STATE: Final = StatePartitions()
"""A group that has asked for no state yet."""


def _from_wire(entries: Iterable[TopicPartitionsInfo]) -> Topics:
    return {
        each.topic_id: NamedPartitions(each.topic_name, frozenset(each.partitions))
        for each in entries
        if each.partitions
    }


def _to_wire(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=key, topic_name=name, partitions=sorted(numbers))
        for key, (name, numbers) in sorted(topics.items())
    ]


def _joined(left: Topics, right: Topics) -> Topics:
    joined = dict(left)
    for key, (name, numbers) in right.items():
        joined[key] = NamedPartitions(name, joined.get(key, _NOTHING).numbers | numbers)
    return joined


def _without(topics: Topics, gone: Partitions) -> Topics:
    left = ((key, name, numbers - gone.get(key, frozenset())) for key, (name, numbers) in topics.items())
    return {key: NamedPartitions(name, numbers) for key, name, numbers in left if numbers}
