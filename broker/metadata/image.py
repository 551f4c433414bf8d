"""The cluster as one broker sees it at one moment: brokers, topics, partition states.

An image is never changed. A decision of `metadata.controller` derives a new one, and a `MetadataStore` makes it
the truth by compare-and-set on its version. Mappings inside an image are plain dicts that nobody writes to: a proxy
around them would cost on every lookup of the produce and fetch paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

NO_LEADER: Final = -1
NO_BROKER: Final = -1
NO_LEASE: Final = -1


class BrokerIncarnation(NamedTuple):
    """One life of a broker, and so one memory. Logs are in memory: the next life of the same id begins empty."""

    broker_id: int
    broker_epoch: int


class Endpoint(NamedTuple):
    """Where one of a broker's listeners is reached; Kafka's advertised.listeners has one such entry for each.

    Attributes:
        listener: the listener's name. A client is told the endpoints of the listener that it connected to.
    """

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker that is part of the cluster.

    Attributes:
        broker_epoch: new at every registration; (broker id, broker epoch) names one life of a broker, and with it one
            memory.
        endpoints: where clients and other brokers reach it, one for each of its listeners.
        lease_id: the store's lease that says that this broker lives.
        fenced: its lease ran out. It leads nothing and is in no in-sync set until it holds another one; its memory may
            still be there.
    """

    broker_id: int
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    lease_id: int = NO_LEASE
    fenced: bool = False

    @property
    def incarnation(self) -> BrokerIncarnation:
        """This life of the broker."""
        return BrokerIncarnation(self.broker_id, self.broker_epoch)

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where its listener of that name is reached; None if it has no such listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who leads a partition, who holds it, who is in sync.

    Attributes:
        leader: a broker id, or NO_LEADER.
        leader_epoch: grows by one whenever the leader changes (KIP-101).
        replicas: broker ids; the first is the preferred leader.
        isr: the committed in-sync replicas, in the order of `replicas`: lives, not ids, since a broker that comes back
            comes back empty (KIP-903).
        partition_epoch: grows by one with every change of this state (KIP-497).
        elr: the eligible leader replicas (KIP-966): they left the in-sync set when it had shrunk below
            min.insync.replicas, so they have everything that was acknowledged. Empty while the set is large enough.
        adding, removing: while the replicas are being reassigned (KIP-455): those of `replicas` that come and that go.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[BrokerIncarnation, ...]
    partition_epoch: int = 0
    elr: tuple[BrokerIncarnation, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def isr_ids(self) -> tuple[int, ...]:
        """The broker ids of the in-sync replicas."""
        return tuple(incarnation.broker_id for incarnation in self.isr)

    @property
    def preferred_leader(self) -> int:
        """The broker that leads if it can: the first replica that is not just being added."""
        return next(broker_id for broker_id in self.replicas if broker_id not in self.adding)

    @property
    def lasting_replicas(self) -> int:
        """How many replicas there are at least, before and after a reassignment that is going on."""
        return len(self.replicas) - max(len(self.adding), len(self.removing))

    @property
    def elr_ids(self) -> tuple[int, ...]:
        """The broker ids of the eligible leader replicas."""
        return tuple(incarnation.broker_id for incarnation in self.elr)


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
        controller_id: the broker that clients send administrative requests to: the lowest live id, or NO_BROKER.
        brokers: all that are registered, the fenced ones too.
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

    def live_broker(self, broker_id: int) -> BrokerRegistration | None:
        """The registration of a broker that is not fenced."""
        registration = self.brokers.get(broker_id)
        return None if registration is None or registration.fenced else registration

    @property
    def live_brokers(self) -> dict[int, BrokerRegistration]:
        """All brokers that are not fenced, by id."""
        return {key: registration for key, registration in self.brokers.items() if not registration.fenced}

    def is_alive(self, incarnation: BrokerIncarnation) -> bool:
        """Whether this very life of a broker goes on, and is not fenced."""
        registration = self.brokers.get(incarnation.broker_id)
        return (
            registration is not None
            and not registration.fenced
            and registration.broker_epoch == incarnation.broker_epoch
        )

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
        live = [broker_id for broker_id, registration in ordered.items() if not registration.fenced]
        return replace(self, brokers=ordered, controller_id=min(live, default=NO_BROKER))

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
