"""The cluster as one broker sees it at one moment: brokers, topics, partition states.

An image is never changed. A decision of `broker.metadata.controller` derives a new one, and a `MetadataStore` makes it
the truth by compare-and-set on its version. Mappings inside an image are plain dicts that nobody writes to: a proxy
around them would cost on every lookup of the produce and fetch paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

NO_LEADER: Final = -1
NO_BROKER: Final = -1


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker that is part of the cluster.

    Attributes:
        broker_epoch: new at every registration; (broker id, broker epoch) names one life of a broker, and with it one
            memory.
        host, port: where clients and other brokers reach it.
    """

    broker_id: int
    broker_epoch: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who leads a partition, who holds it, who is in sync.

    Attributes:
        leader: a broker id, or NO_LEADER.
        leader_epoch: grows by one whenever the leader changes (KIP-101).
        replicas: broker ids; the first is the preferred leader.
        isr: the committed in-sync replicas, in the order of `replicas`.
        partition_epoch: grows by one with every change of this state (KIP-497).
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: partition number i is `partitions[i]`; `configs` holds only what was set for this topic."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything that brokers agree on.

    Attributes:
        version: given by the store: it grows with every committed change, and decisions leave it alone.
        controller_id: the broker that clients send administrative requests to: the lowest id, or NO_BROKER.
        topics: by name.
        next_producer_id: the first producer id that no broker has been given.
        next_broker_epoch: the epoch of the next registration.
        topic_names: topic id to name; derived from `topics` where it is not given.
    """

    version: int
    cluster_id: str
    controller_id: int = NO_BROKER
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    next_producer_id: int = 0
    next_broker_epoch: int = 1
    topic_names: Mapping[bytes, str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.topic_names is None:
            names = {topic.topic_id: topic.name for topic in self.topics.values()}
            object.__setattr__(self, "topic_names", names)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this 16-byte id, if there is one."""
        assert self.topic_names is not None
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """The state of a partition, if there is such a topic and such a partition of it."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    @property
    def partition_count(self) -> int:
        """Partitions of all topics together."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    def with_version(self, version: int) -> ClusterImage:
        """This image as the store commits it."""
        return replace(self, version=version)

    def with_broker(self, registration: BrokerRegistration) -> ClusterImage:
        """With this broker, in place of an earlier registration of the same id."""
        return self._with_brokers({**self.brokers, registration.broker_id: registration})

    def without_broker(self, broker_id: int) -> ClusterImage:
        """Without this broker; partition states still name it."""
        return self._with_brokers({key: value for key, value in self.brokers.items() if key != broker_id})

    def _with_brokers(self, brokers: dict[int, BrokerRegistration]) -> ClusterImage:
        # Sorted, so that listings and placements do not depend on who registered first.
        ordered = dict(sorted(brokers.items()))
        return replace(self, brokers=ordered, controller_id=min(ordered, default=NO_BROKER))

    def with_topics(self, topics: Iterable[Topic]) -> ClusterImage:
        """With these topics, each in place of one of the same name."""
        changed = {topic.name: topic for topic in topics}
        same_ids = all(
            (known := self.topics.get(topic.name)) is not None and known.topic_id == topic.topic_id
            for topic in changed.values()
        )
        names = self.topic_names if same_ids else None
        return replace(self, topics={**self.topics, **changed}, topic_names=names)

    def without_topics(self, names: Iterable[str]) -> ClusterImage:
        """Without the topics of these names."""
        gone = frozenset(names)
        topics = {name: topic for name, topic in self.topics.items() if name not in gone}
        return replace(self, topics=topics, topic_names=None)

    def with_partitions(self, states: Mapping[tuple[str, int], PartitionState]) -> ClusterImage:
        """With these states of partitions that exist, by topic and partition number."""
        rows: dict[str, list[PartitionState]] = {}
        for (name, index), state in states.items():
            row = rows.setdefault(name, list(self.topics[name].partitions))
            row[index] = state
        return self.with_topics(replace(self.topics[name], partitions=tuple(row)) for name, row in rows.items())
