"""The cluster image: brokers, topics and partition states, as of one version of the metadata.

Images are immutable. A decision of `metadata.controller` derives a new image, and a `MetadataStore` commits it by
compare-and-set on its version. The mappings in an image are plain dicts and must not be written to: a read-only proxy
around them would slow every lookup of the produce and fetch paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final, NamedTuple

from purgatorio.broker.metadata.acls import AclBinding
from purgatorio.broker.metadata.clients import ClientQuotas, ScramCredentials
from purgatorio.late import dataclass

NO_LEADER: Final = -1
NO_BROKER: Final = -1
NO_LEASE: Final = -1
ALL_BROKERS: Final = ""
"""The name of the dynamic configs of all brokers, as clients give it."""


class BrokerIncarnation(NamedTuple):
    """One incarnation of a broker (KIP-903): from a registration to the end of its process.

    Logs are in memory, so the next incarnation of the same broker id starts with empty logs.
    """

    broker_id: int
    broker_epoch: int


class Endpoint(NamedTuple):
    """The address that a broker advertises for one of its listeners, as an entry of Kafka's advertised.listeners.

    Attributes:
        listener: the listener's name. Metadata gives a client the endpoints of the listener that it connected to.
    """

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of a broker in the cluster.

    Attributes:
        broker_epoch: new at every registration; (broker id, broker epoch) identifies one incarnation.
        endpoints: the endpoint of each of its listeners, for clients and other brokers.
        lease_id: the lease in the metadata store that this broker renews while it lives.
        fenced: whether its lease has expired. A fenced broker leads no partition and is in no ISR until it holds a new
            lease; its process may still run, with its logs.
    """

    broker_id: int
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    lease_id: int = NO_LEASE
    fenced: bool = False

    @property
    def incarnation(self) -> BrokerIncarnation:
        """The incarnation that made this registration."""
        return BrokerIncarnation(self.broker_id, self.broker_epoch)

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of its listener of that name, or None if it has no such listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader, replicas and in-sync replicas of a partition.

    Attributes:
        leader: a broker id, or NO_LEADER.
        leader_epoch: grows by one whenever the leader changes (KIP-101) or a replica is removed.
        replicas: broker ids; the first is the preferred leader.
        isr: the committed in-sync replicas, in the order of `replicas`. They are incarnations, not broker ids, since a
            restarted broker has empty logs (KIP-903).
        partition_epoch: grows by one with every change of this state (KIP-497).
        elr: the eligible leader replicas (KIP-966): they left the ISR when it was smaller than min.insync.replicas, so
            they have all acknowledged records. Empty while the ISR has min.insync.replicas.
        adding, removing: those of `replicas` that an ongoing reassignment adds and removes (KIP-455).
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
        """The preferred leader: the first replica that an ongoing reassignment does not add."""
        return next(broker_id for broker_id in self.replicas if broker_id not in self.adding)

    @property
    def elr_ids(self) -> tuple[int, ...]:
        """The broker ids of the eligible leader replicas."""
        return tuple(incarnation.broker_id for incarnation in self.elr)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: partition i is `partitions[i]`; `configs` holds only the configs that are set for this topic."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_tiered(self) -> bool:
        """Whether the tier has its records (remote.storage.enable)."""
        return self.configs.get("remote.storage.enable", "").strip().lower() == "true"


Rows = frozenset[int]
"""Partition numbers of a topic."""

MAX_COMMITS_KEPT: Final = 32
"""The most commits that an image remembers: brokers that skip more images than that compare whole images."""
MAX_ROWS_KEPT: Final = 256
"""The most changed partitions of a topic that an image remembers by number; a reader compares all rows of the topic
beyond it. Bounds the memory of the kept commits, with `MAX_TOPICS_KEPT`."""
MAX_TOPICS_KEPT: Final = 1_024
"""The most changed topics of a commit that an image remembers; beyond it no earlier commit is remembered either."""


class Commit(NamedTuple):
    """The topics and partitions that one committed change touched; some may be equal before and after.

    Attributes:
        base: the version that was changed.
        version: the version that the change was committed as.
        topics: the touched topics, each with the numbers of the touched partitions; None stands for the whole topic.
    """

    base: int
    version: int
    topics: Mapping[str, Rows | None]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ClusterImage:
    """The committed metadata of the cluster.

    Attributes:
        version: set by the metadata store; it grows with every committed change. Decisions do not change it.
        controller_id: the broker that clients send administrative requests to: the lowest live broker id, or NO_BROKER.
        brokers: all registered brokers, fenced ones included.
        broker_configs: the dynamic configs (KIP-226) by the resource's name: a broker's id, or "" for all brokers.
        group_configs: the configs of single groups, by the group's id.
        client_quotas: by entity. A reader that derives something from these, or from the ACLs or the credentials, may
            compare objects (`is`): changes of other metadata keep them.
        acls: the access control lists, oldest first, each once.
        scram_credentials: by user and mechanism.
        controller_epoch: grows by one whenever another broker, or none, becomes the controller.
        next_producer_id: the first producer id that is not allocated to a broker.
        next_broker_epoch: the epoch of the next registration.
        topic_names: topic id to name; derived from `topics` if not given.
        edits: the topics that were touched since the version was committed, as `Commit.topics`.
        commits: the last commits, oldest first, each based on the one before. `metadata.delta` finds with them what
            differs from an earlier image; without them (an image that was read from outside) it compares.
        delta: what `metadata.delta` found last, for the next one that asks the same; derived.
    """

    version: int
    cluster_id: str
    controller_id: int = NO_BROKER
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    next_producer_id: int = 0
    next_broker_epoch: int = 1
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: ClientQuotas = field(default_factory=dict)
    acls: Mapping[AclBinding, None] = field(default_factory=dict)
    scram_credentials: ScramCredentials = field(default_factory=dict, repr=False)
    controller_epoch: int = 0
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] | None = field(default=None, repr=False, compare=False)
    edits: Mapping[str, Rows | None] = field(default_factory=dict, repr=False, compare=False)
    commits: tuple[Commit, ...] = field(default=(), repr=False, compare=False)
    delta: object = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.topic_names is None:
            names = {topic.topic_id: topic.name for topic in self.topics.values()}
            object.__setattr__(self, "topic_names", names)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this 16-byte id, or None."""
        assert self.topic_names is not None
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """Return the state of a partition, or None if the topic or the partition does not exist."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    def live_broker(self, broker_id: int) -> BrokerRegistration | None:
        """Return the registration of a broker, or None if it is fenced or not registered."""
        registration = self.brokers.get(broker_id)
        return None if registration is None or registration.fenced else registration

    @property
    def live_brokers(self) -> dict[int, BrokerRegistration]:
        """The registered brokers that are not fenced, by id."""
        return {key: registration for key, registration in self.brokers.items() if not registration.fenced}

    def is_alive(self, incarnation: BrokerIncarnation) -> bool:
        """Whether this incarnation is the registered one of its broker, and is not fenced."""
        registration = self.brokers.get(incarnation.broker_id)
        return (
            registration is not None
            and not registration.fenced
            and registration.broker_epoch == incarnation.broker_epoch
        )

    def with_version(self, version: int) -> ClusterImage:
        """Return this image with the version that the store commits it as."""
        commits: tuple[Commit, ...] = ()
        if len(self.edits) <= MAX_TOPICS_KEPT:
            commits = (*self.commits[1 - MAX_COMMITS_KEPT :], Commit(self.version, version, self.edits))
        return replace(self, version=version, edits={}, commits=commits)

    def with_broker(self, registration: BrokerRegistration) -> ClusterImage:
        """Return an image with this broker; it replaces an earlier registration of the same id."""
        return self._with_brokers({**self.brokers, registration.broker_id: registration})

    def without_broker(self, broker_id: int) -> ClusterImage:
        """Return an image without this broker; partition states still name it."""
        return self._with_brokers({key: value for key, value in self.brokers.items() if key != broker_id})

    def _with_brokers(self, brokers: dict[int, BrokerRegistration]) -> ClusterImage:
        # Sorted, so that listings and placements do not depend on the order of registrations.
        ordered = dict(sorted(brokers.items()))
        live = [broker_id for broker_id, registration in ordered.items() if not registration.fenced]
        controller_id = min(live, default=NO_BROKER)
        epoch = self.controller_epoch + (controller_id != self.controller_id)
        return replace(self, brokers=ordered, controller_id=controller_id, controller_epoch=epoch)

    def with_broker_configs(self, name: str, configs: Mapping[str, str]) -> ClusterImage:
        """Return an image with these dynamic configs of a broker, or of all brokers (""); they replace its others."""
        others = {key: value for key, value in self.broker_configs.items() if key != name}
        return replace(self, broker_configs={**others, name: configs} if configs else others)

    def with_group_configs(self, group_id: str, configs: Mapping[str, str]) -> ClusterImage:
        """Return an image with these configs of a group; they replace its others."""
        others = {key: value for key, value in self.group_configs.items() if key != group_id}
        return replace(self, group_configs={**others, group_id: configs} if configs else others)

    def with_client_quotas(self, quotas: ClientQuotas) -> ClusterImage:
        """Return an image with these client quotas, and no others."""
        return replace(self, client_quotas=quotas)

    def with_acls(self, acls: Iterable[AclBinding]) -> ClusterImage:
        """Return an image with these access control lists, and no others."""
        return replace(self, acls=dict.fromkeys(acls))

    def with_scram_credentials(self, credentials: ScramCredentials) -> ClusterImage:
        """Return an image with these SCRAM credentials, and no others."""
        return replace(self, scram_credentials=credentials)

    def with_topics(self, topics: Iterable[Topic]) -> ClusterImage:
        """Return an image with these topics; each replaces a topic of the same name."""
        return self._with_topics({topic.name: topic for topic in topics}, {})

    def without_topics(self, names: Iterable[str]) -> ClusterImage:
        """Return an image without the topics of these names."""
        removed = dict.fromkeys(names)
        topics = {name: topic for name, topic in self.topics.items() if name not in removed}
        return replace(self, topics=topics, topic_names=None, edits={**self.edits, **removed})

    def with_partitions(self, states: Mapping[tuple[str, int], PartitionState]) -> ClusterImage:
        """Return an image with these states of existing partitions, given by topic and partition number."""
        by_topic: dict[str, dict[int, PartitionState]] = {}
        for (name, index), state in states.items():
            by_topic.setdefault(name, {})[index] = state
        return self.with_rows(by_topic)

    def with_rows(self, states: Mapping[str, Mapping[int, PartitionState]]) -> ClusterImage:
        """Return an image with these states of existing partitions, given by topic, then by partition number."""
        changed = {}
        for name, rows in states.items():
            known = self.topics[name]
            partitions = list(known.partitions)
            for index, state in rows.items():
                partitions[index] = state
            changed[name] = Topic(name, known.topic_id, tuple(partitions), known.configs)  # a fifth of `replace`
        return self._with_topics(changed, states)

    def _with_topics(self, changed: dict[str, Topic], touched: Mapping[str, Iterable[int]]) -> ClusterImage:
        """Return an image with these topics by name.

        Args:
            touched: the numbers of the partitions that were replaced; a topic that it lacks is touched as a whole.
        """
        same_ids = all(
            (known := self.topics.get(name)) is not None and known.topic_id == topic.topic_id
            for name, topic in changed.items()
        )
        names = self.topic_names if same_ids else None
        edits = dict(self.edits)
        for name in changed:
            edits[name] = _more_rows(edits.get(name, _NO_ROWS), touched.get(name))
        return replace(self, topics={**self.topics, **changed}, topic_names=names, edits=edits)


_NO_ROWS: Final[Rows] = frozenset()


def _more_rows(rows: Rows | None, more: Iterable[int] | None) -> Rows | None:
    """Return the union of touched rows; None, the whole topic, if one of them is that or there are too many."""
    if rows is None or more is None:
        return None
    union = rows.union(more)
    return union if len(union) <= MAX_ROWS_KEPT else None
