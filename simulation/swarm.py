"""Swarm settings: what a simulated cluster and its clients are like, drawn from the seed.

One workload that has everything runs few paths often: a log that is always compacted is never truncated far. So each
feature is on in some seeds and off in others (swarm testing, Groce et al. 2012), and small sizes make rare paths
common: segments and fetches of about a kilobyte, so that twenty seconds have many of them.

No seed has unclean elections: unclean.leader.election.enable has no effect on these brokers, and an operator's unclean
election may lose what was acknowledged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Final

from purgatorio.protocol.compression import Compression
from purgatorio.simulation.clients.consumers import Reader
from purgatorio.simulation.clients.plans import (
    OLD,
    SESSION_TIMEOUT_MS,
    TV1,
    TV2,
    GroupPlan,
    Protocol,
    SharePlan,
    TransactionPlan,
)
from purgatorio.simulation.world.nemesis import FAULTS, STORE_FAULTS, TIER_FAULTS

SMALL_BYTES: Final = 1024
NEAR_MS: Final = (0.1, 1.0)
FAR_MS: Final = (5.0, 40.0)
CLOCK_RATES: Final = (0.9, 1.1)
FOLLOWER_FETCH: Final = "replica_fetch_max_bytes"
FETCH_SESSIONS: Final = "max_incremental_fetch_session_cache_slots"
FEW_SESSIONS: Final = 3
"""So few that a broker's followers and consumers take them from each other."""
OFFSETS_PARTITIONS: Final = 2
STATE_PARTITIONS: Final = 2
SHARE_STATE_PARTITIONS: Final = 2
OUTPUT_PARTITIONS: Final = 2
QUOTAS: Final = (
    {"producer_byte_rate": 300.0},
    {"consumer_byte_rate": 300.0},
    {"producer_byte_rate": 600.0, "consumer_byte_rate": 600.0},
)
COMPRESSIONS: Final = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic; if it is compacted, it has so many `keys`, and if it `deletes`, its oldest records may go."""

    name: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    keys: int = 0
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Swarm:
    """The parameters that a seed draws; the defaults are the plain workload.

    Attributes:
        batch_records: the limit of records in a batch of the idempotent producers; 0: they send single values, and
            wait for each acknowledgement.
        java: whether those producers treat errors as Java's does, else as librdkafka.
        burst: the batches that those producers send at a time.
        one_process: whether the brokers and the store are one process, which may be suspended as a whole.
        store_faults: whether links to the metadata store are slow or one-way at times, and its answers lost.
        memory_bytes: the memory cap of a broker's logs, past which any topic loses its oldest records; 0: none.
        clock_rates: the range of the rates of brokers' clocks; those of one process share a clock of rate 1.
        replaces: whether a broker's process may be replaced on another host, and go on later, unless all are one.
        skips_images, keyed: see `WatchedStore`.
        groups: they consume all topics but the output.
        share: the share group, if there is one; in swarms without other groups.
        output: the topic that a group writes to in transactions, if one does.
        offsets_segment_bytes: the segment size of ``__consumer_offsets``, small for its log to be compacted while it is
            in use; 0: the brokers create that topic, with segments that are never full here.
        quotas: of each client id, until the faults have healed.
        tier_cache_bytes: what a broker keeps of its reads of the tier; 0: there is no tier.
    """

    topics: tuple[TopicPlan, ...]
    brokers: int = 3
    batch_records: int = 0
    compression: Compression = Compression.NONE
    reader: Reader = field(default_factory=Reader)
    java: bool = False
    burst: int = 1
    delivery_timeout_ms: int = 8_000
    client_latency_ms: tuple[float, float] = NEAR_MS
    racks: bool = False
    one_process: bool = False
    store_faults: bool = False
    recreates: bool = False
    memory_bytes: int = 0
    clock_rates: tuple[float, float] = (1.0, 1.0)
    replaces: bool = False
    skips_images: bool = False
    keyed: bool = False
    slow_turns: bool = False
    groups: tuple[GroupPlan, ...] = ()
    share: SharePlan | None = None
    transactions: TransactionPlan | None = None
    output: TopicPlan | None = None
    offsets_segment_bytes: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    tier_cache_bytes: int = 0

    def faults(self) -> tuple[str, ...]:
        """Return the names of the faults that this cluster can have."""
        is_possible = dict.fromkeys(STORE_FAULTS, self.store_faults) | {
            "suspend": self.one_process,
            "delete-records": any(topic.deletes for topic in self.topics),
            "recreate": self.recreates,
            "in-doubt": self.transactions is not None,
            "replace": self.replaces and not self.one_process,
            "slow-turns": self.slow_turns,
            **dict.fromkeys(TIER_FAULTS, self.tier_cache_bytes > 0),
        }
        return tuple(kind for kind in FAULTS if is_possible.get(kind, True))

    def __str__(self) -> str:
        """Describe the workload in a line per topic and one for the rest."""
        lines = []
        for topic in self.topics:
            configs = ", ".join(f"{name}={value}" for name, value in topic.configs.items())
            lines.append(f"topic {topic.name}, partitions {topic.partitions}: {configs}")
        producers = "single records"
        if self.batch_records:
            model = "Java's" if self.java else "librdkafka's"
            producers = f"batches of up to {self.batch_records}, pipelined as {model}, {self.burst} at a time"
        features = [
            producers,
            "" if self.compression is Compression.NONE else self.compression.name.lower(),
            f"fetches of {self.reader.max_bytes} bytes" + (", slowly" if self.reader.pause_ms[1] else ""),
            "clients far away" if self.client_latency_ms == FAR_MS else "",
            "racks" if self.racks else "",
            "all brokers in one process" if self.one_process else "",
            "faults of the store" if self.store_faults else "",
            "topics created again" if self.recreates else "",
            "clocks of different rates" if self.clock_rates == CLOCK_RATES and not self.one_process else "",
            "brokers with two processes" if self.replaces and not self.one_process else "",
            "images of the metadata skipped" if self.skips_images else "",
            "metadata in keys" if self.keyed else "",
            "slow turns" if self.slow_turns else "",
            f"memory for {self.memory_bytes} bytes of logs" if self.memory_bytes else "",
            "fetch sessions" if self.reader.sessions else "",
            f"at most {FEW_SESSIONS} fetch sessions" if FETCH_SESSIONS in self.settings else "",
            f"follower fetches of {SMALL_BYTES} bytes" if FOLLOWER_FETCH in self.settings else "",
            "clients throttled" if self.quotas else "",
            f"a tier, of which brokers keep {self.tier_cache_bytes} bytes" if self.tier_cache_bytes else "",
        ]
        if self.transactions is not None:
            features.append(str(self.transactions))
        if self.offsets_segment_bytes:
            features.append(f"committed offsets in segments of {self.offsets_segment_bytes} bytes")
        for group in self.groups:
            kind = "static members" if group.static else "members"
            writes = ", which transforms" if group.transforms else ""
            features.append(f"group {group.group_id} of {group.members} {kind}, {group.protocol} protocol{writes}")
        if self.share is not None:
            features.append(f"share group {self.share}")
        return "\n".join([*lines, ", ".join(filter(None, features))])


def plain(*, brokers: int, partitions: int, min_insync_replicas: int) -> Swarm:
    """Return the plain workload: one topic, single records, each acknowledged before the next."""
    return Swarm((TopicPlan("orders", partitions, {"min.insync.replicas": str(min_insync_replicas)}),), brokers)


def draw(rng: random.Random, *, brokers: int, partitions: int, min_insync_replicas: int) -> Swarm:
    """Draw a workload with as many partitions over all topics; in about one of four seeds it is the plain one."""
    swarm = _draw(rng, brokers=brokers, partitions=partitions, min_insync_replicas=min_insync_replicas)
    # Not where records are deleted: a producer that is muted for longer than its records are kept may write twice what
    # it sends again, since a new replica does not know it; and slow consumers do not see what was there.
    deletes = swarm.memory_bytes > 0 or swarm.recreates or any(topic.deletes for topic in swarm.topics)
    if swarm.settings and not deletes and rng.random() < 0.4:
        swarm = replace(swarm, quotas=dict(rng.choice(QUOTAS)))
    swarm = replace(swarm, slow_turns=bool(swarm.settings) and rng.random() < 0.3)
    swarm = replace(swarm, keyed=rng.random() < 0.5)
    # A generator of its own: what a share group is like decides nothing else.
    share_rng = random.Random(f"share group {rng.random()}")
    may_share = swarm.settings and not swarm.groups and not swarm.recreates and not swarm.memory_bytes
    if may_share and share_rng.random() < 0.6:
        return _with_share_group(share_rng, swarm, min_insync_replicas)
    return swarm


def with_tier(rng: random.Random, swarm: Swarm) -> Swarm:
    """Give a workload a tier, to which most topics that are not compacted are copied; at least one is.

    All else of the seed stays as it is: `rng` is a generator of its own.
    """
    has_batches = swarm.batch_records > 1 or swarm.transactions is not None
    sizes = (SMALL_BYTES,) if has_batches else (SMALL_BYTES // 4, SMALL_BYTES)
    topics = [_tiered(rng, topic, rng.choice(sizes), sure=not nth) for nth, topic in enumerate(swarm.topics)]
    output = swarm.output
    if output is not None:
        output = _tiered(rng, output, SMALL_BYTES, sure=rng.random() < 0.5)
    settings: dict[str, object] = {
        "log_retention_check_interval_ms": 700,
        "remote_log_manager_task_interval_ms": rng.choice((200, 700, 2_000)),
        "remote_fetch_max_wait_ms": rng.choice((100, 500)),
        "remote_log_reader_threads": rng.choice((1, 10)),
    }
    return replace(
        swarm,
        topics=tuple(topics),
        output=output,
        settings=swarm.settings | settings,
        tier_cache_bytes=rng.choice((2 * SMALL_BYTES, 64 * SMALL_BYTES)),
    )


def _tiered(rng: random.Random, topic: TopicPlan, segment_bytes: int, *, sure: bool) -> TopicPlan:
    """Return a topic with a tier; if it is not sure, one of four has none, and none that is compacted."""
    if not sure and (topic.keys or rng.random() < 0.25):
        return topic
    kept = {name: value for name, value in topic.configs.items() if "clean" not in name}
    local = rng.choice(
        (
            {"local.retention.bytes": str(SMALL_BYTES // 4)},
            {"local.retention.bytes": str(2 * SMALL_BYTES)},
            {"local.retention.ms": "300"},
            {"local.retention.ms": "2000"},
            {},
        )
    )
    tiered = {"segment.bytes": str(segment_bytes)} | kept | local | {"remote.storage.enable": "true"}
    return replace(topic, configs=tiered, keys=0)


def _draw(rng: random.Random, *, brokers: int, partitions: int, min_insync_replicas: int) -> Swarm:
    if rng.random() < 0.25:
        return plain(brokers=brokers, partitions=partitions, min_insync_replicas=min_insync_replicas)
    batch_records = rng.choice((0, 1, 4, 12))
    segment_bytes = 0 if rng.random() < 0.3 else SMALL_BYTES if batch_records > 1 else SMALL_BYTES // 4
    settings: dict[str, object] = {"log_retention_check_interval_ms": 700, "log_cleaner_backoff_ms": 700}
    if rng.random() < 0.5:
        settings |= {FOLLOWER_FETCH: SMALL_BYTES, "replica_fetch_response_max_bytes": SMALL_BYTES}
    several = partitions > 1 and rng.random() < 0.5
    shares = [1] * partitions if several else [partitions]
    swarm = Swarm(
        tuple(
            _topic(rng, f"orders{nth or ''}", share, min_insync_replicas, segment_bytes)
            for nth, share in enumerate(shares)
        ),
        brokers=brokers + (rng.random() < 0.2),
        batch_records=batch_records,
        compression=rng.choice(COMPRESSIONS) if rng.random() < 0.4 else Compression.NONE,
        reader=Reader(
            max_bytes=rng.choice((SMALL_BYTES // 2, SMALL_BYTES, 64 * SMALL_BYTES)),
            pause_ms=(50.0, 600.0) if rng.random() < 0.3 else (0.0, 0.0),
        ),
        racks=rng.random() < 0.4,
        one_process=rng.random() < 0.5,
        settings=settings,
        # New features are drawn last: the others of a seed stay as they were.
        java=rng.random() < 0.5,
        burst=rng.choice((1, 3, 5)),
        delivery_timeout_ms=rng.choice((2_000, 8_000)),
        client_latency_ms=FAR_MS if rng.random() < 0.3 else NEAR_MS,
        store_faults=rng.random() < 0.4,
        recreates=rng.random() < 0.2,
        memory_bytes=16 * SMALL_BYTES if rng.random() < 0.2 else 0,
        clock_rates=CLOCK_RATES if rng.random() < 0.4 else (1.0, 1.0),
    )
    swarm = replace(swarm, reader=replace(swarm.reader, sessions=rng.random() < 0.6))
    if rng.random() >= 0.7:
        swarm = replace(swarm, settings=swarm.settings | {FETCH_SESSIONS: FEW_SESSIONS})
    swarm = replace(swarm, replaces=rng.random() < 0.5, skips_images=rng.random() < 0.5)
    if rng.random() < 0.5 and not swarm.recreates and not swarm.memory_bytes:
        swarm = _with_groups(rng, swarm, min_insync_replicas)
    if rng.random() < 0.4 and not swarm.memory_bytes:
        return _with_transactions(rng, swarm, min_insync_replicas)
    return swarm


def _with_groups(rng: random.Random, swarm: Swarm, min_insync_replicas: int) -> Swarm:
    """Add one group or two, to a swarm that deletes no records of groups: by a memory cap, or with a topic."""
    groups = []
    for protocol in rng.choice((("classic",), ("classic",), ("consumer",), ("classic", "consumer"))):
        members, static = rng.choice((2, 3)), rng.random() < 0.4
        kind: Protocol = "classic" if protocol == "classic" else "consumer"
        groups.append(GroupPlan(f"{protocol}-group", kind, members, static))
    settings = swarm.settings | _group_settings(rng, min_insync_replicas)
    segment_bytes = rng.choice((0, 2 * SMALL_BYTES))
    if rng.random() < 0.25:
        groups = [replace(groups[0], protocol="mixed", members=3)]
    return replace(swarm, groups=tuple(groups), offsets_segment_bytes=segment_bytes, settings=settings)


def _group_settings(rng: random.Random, min_insync_replicas: int) -> dict[str, object]:
    return {
        "offsets_topic_num_partitions": OFFSETS_PARTITIONS,
        "min_insync_replicas": min_insync_replicas,
        "offsets_commit_timeout_ms": 1_000,
        "group_min_session_timeout_ms": SESSION_TIMEOUT_MS,
        "group_consumer_session_timeout_ms": SESSION_TIMEOUT_MS,
        "group_initial_rebalance_delay_ms": rng.choice((0, 300)),
    }


def _with_share_group(rng: random.Random, swarm: Swarm, min_insync_replicas: int) -> Swarm:
    """Add a share group, with locks and states that are short-lived."""
    plan = SharePlan(
        "share-group",
        members=rng.choice((2, 3, 5)),
        version=rng.choice((1, 2, 2)),
        lock_ms=rng.choice((500, 1_000, 2_000)),
        delivery_limit=rng.choice((2, 3, 5)),
        committed=swarm.transactions is not None and rng.random() < 0.5,
    )
    settings: dict[str, object] = {
        "offsets_topic_num_partitions": OFFSETS_PARTITIONS,
        "offsets_topic_min_isr": min_insync_replicas,
        "group_share_session_timeout_ms": SESSION_TIMEOUT_MS,
        "group_share_record_lock_duration_ms": plan.lock_ms,
        "group_share_delivery_count_limit": plan.delivery_limit,
        "group_share_partition_max_record_locks": rng.choice((100, 2_000)),
        "group_share_initialize_retry_interval_ms": 2_000,
        "share_coordinator_state_topic_num_partitions": SHARE_STATE_PARTITIONS,
        "share_coordinator_state_topic_min_isr": min_insync_replicas,
        "share_coordinator_snapshot_update_records_per_snapshot": rng.choice((0, 3, 20)),
        "share_coordinator_state_topic_prune_interval_ms": rng.choice((1_000, 300_000)),
        "share_coordinator_cold_partition_snapshot_interval_ms": 3_000,
    }
    if rng.random() < 0.5:  # drawn last: share groups without dead letters are as they were before there were any
        plan = replace(plan, dead_letter_partitions=rng.choice((1, 3)), letters_want_all=rng.random() < 0.5)
    return replace(swarm, share=plan, settings=swarm.settings | settings)


def _with_transactions(rng: random.Random, swarm: Swarm, min_insync_replicas: int) -> Swarm:
    """Add transactional writers, and in most seeds a group that transforms, in the place of all other groups."""
    plan = TransactionPlan(
        rng.choice((OLD, TV1, TV2)),
        writers=rng.choice((1, 2, 3)),
        timeout_ms=rng.choice((1_000, 2_500)),
        zombies=rng.random() < 0.5,
        state_segment_bytes=rng.choice((0, 2 * SMALL_BYTES)),
    )
    settings: dict[str, object] = {
        "transaction_state_log_num_partitions": STATE_PARTITIONS,
        "offsets_topic_min_isr": min_insync_replicas,
        "transaction_state_log_min_isr": min_insync_replicas,
        "transaction_version": 1 if plan.versions.adds_partitions else 2,
    }
    swarm = replace(swarm, transactions=plan, settings=swarm.settings | settings)
    if rng.random() < 0.3 or swarm.recreates:
        return swarm
    protocol: Protocol = rng.choice(("classic", "consumer"))
    group = GroupPlan("eos-group", protocol, rng.choice((1, 2, 3)), rng.random() < 0.3, transforms=True)
    configs = {"min.insync.replicas": str(min_insync_replicas)}
    if rng.random() < 0.5:
        configs["segment.bytes"] = str(SMALL_BYTES)
    return replace(
        swarm,
        groups=(group,),
        output=TopicPlan("shipped", OUTPUT_PARTITIONS, configs),
        offsets_segment_bytes=rng.choice((0, 2 * SMALL_BYTES)),
        settings=swarm.settings | _group_settings(rng, min_insync_replicas),
    )


def _topic(rng: random.Random, name: str, partitions: int, min_insync_replicas: int, segment_bytes: int) -> TopicPlan:
    configs = {"min.insync.replicas": str(min_insync_replicas)}
    if segment_bytes:
        configs["segment.bytes"] = str(segment_bytes)
    kind = rng.choice(("keep", "keep", "retain", "delete", "compact"))
    if kind == "compact":
        configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
        return TopicPlan(name, partitions, configs, keys=rng.choice((5, 40)))
    if kind == "retain":
        configs |= rng.choice(({"retention.ms": "4000"}, {"retention.bytes": str(4 * SMALL_BYTES)}))
    return TopicPlan(name, partitions, configs, deletes=kind != "keep")
