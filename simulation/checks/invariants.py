"""Invariants of the brokers' own state and of leadership, checked while a simulation runs; no client sees them.

The checks of the history find damage that a client happened to notice. These find it when it is done: a replica whose
prefix differs is found before it is elected, and a lost wake-up before a deadline hides it.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.fetching.delayed_fetch import DelayedFetch
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.share.delayed_share_fetch import DelayedShareFetch
from purgatorio.purgatory import DelayedOperation, Purgatory
from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.checks.known_log import BatchPool, KnownBatch, KnownLog
from purgatorio.simulation.checks.share_watch import SHARE_INVARIANTS, ShareLook
from purgatorio.simulation.checks.tier_look import TIER_INVARIANTS, TierLook
from purgatorio.simulation.history.history import FencedAnswer, History, LeaderElected, TopicRecreated
from purgatorio.simulation.world.cluster import SimulatedCluster, SimulatedProcess

INVARIANTS: Final[Mapping[str, str]] = {
    "committed-prefix": "A replica lacked or had changed a record below a high watermark, or a leader lacked one.",
    "unequal-replicas": "Two replicas that end in the same record differ before it, in producers or transactions.",
    "watermark-back": "A replica's high watermark went back in one leader epoch, or past its log's end.",
    "memory-account": "The bytes of a broker's logs were not those that its memory budget counted.",
    "lease-while-slow": "A broker lost its lease while the one process of all was slow, and nothing else was wrong.",
    "lost-wake-up": "A parked operation could have been completed, or was past its deadline, and nothing woke it.",
    **SHARE_INVARIANTS,
    **TIER_INVARIANTS,
}
"""Each invariant's name, and the meaning of a violation in one sentence."""
MAX_VIOLATIONS: Final = 100
LOOK_SECONDS: Final = 1.0
WAKE_UP_SECONDS: Final = 0.25
SETTLED_SECONDS: Final = 1.0
"""After a fault of a broker or of its link to the store, its lease has recovered when so much time has passed."""
OVERDUE_MS: Final = 100
"""The reaper wakes with the wheel's tick, and the loop may be busy for a moment."""
_last_offset = attrgetter("last_offset")


class _Seen(NamedTuple):
    partition: Partition
    leader_epoch: int
    high_watermark: int


class Invariants:
    """Looks at the brokers of a cluster, replaced processes included, and keeps the violations as anomalies.

    Attributes:
        anomalies: the first `MAX_VIOLATIONS`; of each invariant and partition only the first.
        shares: the looks at share partitions.
        tier: the looks at the tier.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.anomalies: list[Anomaly] = []
        self._cluster = cluster
        self._known: set[tuple[str, str]] = set()
        self._committed: dict[tuple[bytes, TopicPartition], list[KnownBatch]] = {}
        self._known_logs: dict[tuple[str, TopicPartition], KnownLog] = {}
        self._pools: dict[tuple[bytes, TopicPartition], BatchPool] = {}
        self._seen: dict[tuple[str, TopicPartition], _Seen] = {}
        self.shares = ShareLook(self._violated)
        self.tier = TierLook(cluster, self._committed, self._violated)
        cluster.store.committed.append(self._check_fenced)

    async def run(self) -> None:
        """Look again and again until cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(WAKE_UP_SECONDS)
            looks += 1
            if looks % int(LOOK_SECONDS / WAKE_UP_SECONDS) == 0:
                self.look()
            self.look_for_lost_wake_ups()
            self.look_at_leases()
            self.look_at_shares()
            self.tier.look()

    def look(self) -> None:
        """Check the logs, high watermarks and memory of all running brokers."""
        replicas: dict[tuple[bytes, TopicPartition], list[KnownLog]] = {}
        for process in self._cluster.all_processes():
            held = [self._read(process.host.name, each) for each in process.broker.replicas.partitions.values()]
            self._check_memory(process, held)
            for known in held:
                partition = known.partition
                replicas.setdefault((partition.topic_id, partition.tp), []).append(known)
                self._check_watermark(known)
        for name, logs in replicas.items():
            if not any(known.is_compacted for known in logs):
                self._check_committed(name, logs)
                self._check_equal(logs)
        self.tier.check_copies()

    def _read(self, host: str, partition: Partition) -> KnownLog:
        name = host, partition.tp
        known = self._known_logs.get(name)
        if known is None or known.partition is not partition:
            pool = self._pools.setdefault((partition.topic_id, partition.tp), BatchPool())
            known = self._known_logs[name] = KnownLog(partition, pool, host)
        known.read_on()
        return known

    def _violated(self, invariant: str, where: str, message: str) -> None:
        if (invariant, where) not in self._known and len(self.anomalies) < MAX_VIOLATIONS:
            self._known.add((invariant, where))
            now_ms = self._cluster.clock.now_ms()
            self.anomalies.append(Anomaly(invariant, where, f"at {now_ms} ms: {message}"))

    def look_at_shares(self) -> None:
        """Check the share partitions of all running brokers."""
        for process in self._cluster.all_processes():
            self.shares.look(process)

    # --- leases ---

    def look_at_leases(self) -> None:
        """Demand of brokers that are slow, and no more, that none of them takes its lease for lost."""
        for process in self._cluster.all_processes():
            if self._is_only_slow(process) and not process.broker.lifecycle.has_lease():
                self._violated("lease-while-slow", process.host.name, f"{process.host.name} took its lease for lost")

    def _check_fenced(self, before: ClusterImage, after: ClusterImage) -> None:
        """Demand of a change that it fences no broker that is slow, and no more."""
        for broker_id, registration in after.brokers.items():
            known, process = before.brokers.get(broker_id), self._cluster.processes.get(broker_id)
            is_new = registration.fenced and known is not None and not known.fenced
            if process is None or process.broker.lifecycle.broker_epoch != registration.broker_epoch:
                continue  # it is gone, or another has replaced it
            if is_new and self._is_only_slow(process):
                self._violated("lease-while-slow", process.host.name, f"{process.host.name} was fenced")

    def _is_only_slow(self, process: SimulatedProcess) -> bool:
        """Return whether a broker's process is that of all, its turns are slow, and there was no other fault lately."""
        slow_since = process.node.slow_since
        if slow_since is None or not self._cluster.one_process or not process.link.is_whole:
            return False
        return max(process.node.resumed_at, process.link.healed_at) <= slow_since - SETTLED_SECONDS

    # --- logs ---

    def _check_committed(self, name: tuple[bytes, TopicPartition], logs: list[KnownLog]) -> None:
        """Compare what each replica takes for committed with what was, and demand all of it of the leader."""
        committed = self._committed.setdefault(name, [])
        for known in logs:
            self._compare(known, committed)
        end_offset = committed[-1].last_offset + 1 if committed else 0
        for known in logs:
            partition = known.partition
            if self._leads_now(partition) and partition.log.log_end_offset < end_offset:
                what = f"{known.host} leads and ends at {partition.log.log_end_offset}"
                self._violated("committed-prefix", str(partition.tp), f"{what}, committed is all before {end_offset}")

    def _compare(self, known: KnownLog, committed: list[KnownBatch]) -> None:
        """Compare a replica's committed batches with those that are known, and add those that follow them."""
        log, high_watermark = known.partition.log, known.partition.high_watermark
        known_start = committed[0].base_offset if committed else 0
        known_end = committed[-1].last_offset + 1 if committed else 0
        unchecked = known.batches[known.checked :]
        mine = [batch for batch in unchecked if log.local_start_offset <= batch.last_offset < high_watermark]
        # Offsets ascend: what was checked before is a prefix, and all of it was committed.
        checked_end = known.batches[known.checked - 1].last_offset + 1 if known.checked else 0
        start = max(log.local_start_offset, checked_end)
        first, stop = (bisect_left(committed, offset, key=_last_offset) for offset in (start, high_watermark))
        expected = committed[first:stop]
        shared = [batch for batch in mine if known_start <= batch.base_offset < known_end]
        if shared != expected:
            what = f"{known.host} has {_difference(shared, expected)} was committed"
            self._violated("committed-prefix", str(known.partition.tp), what)
            return
        following = [batch for batch in mine if batch.base_offset >= known_end]
        if following and following[0].base_offset > known_end:
            committed.clear()  # what lay between was committed and deleted between two looks
        committed += following
        known.checked = len(known.batches) - len([b for b in unchecked if b.last_offset >= high_watermark])

    def _leads_now(self, partition: Partition) -> bool:
        state = self._cluster.partitions.get((partition.tp.topic, partition.tp.partition))
        return (
            state is not None
            and partition.is_leader
            and state.leader_epoch == partition.leader_epoch
            and partition.incarnation in state.isr
        )

    def _check_equal(self, logs: list[KnownLog]) -> None:
        """Compare replicas that end in the same record: their logs must then be the same, and their producers.

        A leader epoch has one leader, which appends in order; so the same offset and epoch are the same record, and
        the same records before it (as in Raft, the log matching property).
        """
        first: dict[KnownBatch, KnownLog] = {}
        for known in logs:
            if not known.batches:
                continue
            last = known.batches[-1]
            other = first.setdefault(last, known)
            pair = f"{known.host} and {other.host} end at {last.last_offset}"
            where = str(known.partition.tp)
            if known.differs_from(other):
                self._violated("unequal-replicas", where, f"{pair} and differ before that")
            elif known.has_first_batch and other.has_first_batch and known.producers_differ_from(other):
                self._violated("unequal-replicas", where, f"{pair} and know different producers")

    # --- high watermarks and memory ---

    def _check_watermark(self, known: KnownLog) -> None:
        partition = known.partition
        high_watermark, end_offset = partition.high_watermark, partition.log.log_end_offset
        where = str(partition.tp)
        if high_watermark > end_offset:
            what = f"{known.host} has high watermark {high_watermark} and ends at {end_offset}"
            self._violated("watermark-back", where, what)
        seen = self._seen.get((known.host, partition.tp))
        if seen is not None and (seen.partition, seen.leader_epoch) == (partition, partition.leader_epoch):
            what = f"{known.host} went from {seen.high_watermark} to {high_watermark}"
            if high_watermark < seen.high_watermark:
                self._violated("watermark-back", where, f"{what} in leader epoch {partition.leader_epoch}")
        self._seen[known.host, partition.tp] = _Seen(partition, partition.leader_epoch, high_watermark)

    def _check_memory(self, process: SimulatedProcess, logs: list[KnownLog]) -> None:
        memory = process.broker.replicas.memory
        held = {id(known.partition.log) for known in logs}
        used_bytes = sum(known.memory_bytes for known in logs) + memory.building_bytes
        if memory.used_bytes != used_bytes or {id(log) for log in memory._logs} != held:
            what = (
                f"{len(held)} logs hold {used_bytes} bytes; counted are {len(memory._logs)}, {memory.used_bytes} bytes"
            )
            self._violated("memory-account", process.host.name, what)
        uncommitted_bytes = sum(known.uncommitted_bytes for known in logs)
        counted_bytes = memory.led.used_bytes + memory.followed.used_bytes
        if counted_bytes != uncommitted_bytes:
            what = f"{uncommitted_bytes} bytes are not committed; counted are {counted_bytes}"
            self._violated("memory-account", process.host.name, what)

    # --- liveness ---

    def look_for_lost_wake_ups(self) -> None:
        """Ask every parked operation of brokers that run whether it could be completed."""
        for process in self._cluster.all_processes():
            node = process.node
            if not node.paused and not node.held and not _notices_its_lease(process.broker):
                for purgatory in process.broker.purgatories:
                    self._look_in(process, purgatory)

    def _look_in(self, process: SimulatedProcess, purgatory: Purgatory[Any]) -> None:
        now_ms = purgatory.now_ms()  # members are judged by the time in which their broker's process ran
        for operation in list(purgatory._parked.values()):
            late_ms = now_ms - operation.deadline_ms
            if late_ms > OVERDUE_MS or could_complete(operation):
                what = f"{late_ms} ms late" if late_ms > OVERDUE_MS else "could be completed"
                missing = in_words(operation.causes())
                told = f"{operation.client} {missing} of {', '.join(map(str, operation.keys))}: {what}"
                self._violated("lost-wake-up", f"{process.host.name} {purgatory.name}", told)


def _notices_its_lease(broker: Broker) -> bool:
    """Return whether a broker's lease has just run out, which a timer of the broker notices within this turn."""
    lifecycle = broker.lifecycle
    return 0 <= lifecycle._clock.now_ms() - lifecycle._lease_ends_ms < OVERDUE_MS


class _Stub:
    """Takes an operation's completion in the place of its purgatory, and does nothing."""

    def finish(self, operation: DelayedOperation, outcome: Any, error: Exception | None = None) -> None: ...


def could_complete(operation: DelayedOperation) -> bool:
    """Ask a parked operation whether it could be completed, and leave it parked.

    `DelayedOperation.try_complete` may be asked at any time. A fetch would look at what is marked, which is what is in
    question; so it has a question of its own.
    """
    if isinstance(operation, (DelayedFetch, DelayedShareFetch)):
        return operation.could_complete()
    owner, checks = operation._owner, operation.checks
    operation._owner = _Stub()
    try:
        operation.try_complete()
        return operation.completed
    finally:
        operation._owner, operation.completed, operation.checks = owner, False, checks


def _difference(shared: list[KnownBatch], expected: list[KnownBatch]) -> str:
    for mine, other in itertools.zip_longest(shared, expected):
        if mine != other:
            return f"{mine or 'nothing'} where {other or 'nothing'}"
    return ""


class _Standstill(NamedTuple):
    """A leader's log end offset and high watermark when it was fenced; neither may advance while it acts as leader."""

    process: SimulatedProcess
    partition: Partition
    leader_epoch: int
    at: tuple[int, int]


class FencedWatch:
    """Records a `FencedAnswer` for each leader whose log or high watermark advances after it was fenced."""

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._standing: dict[tuple[str, TopicPartition], _Standstill] = {}
        cluster.store.committed.append(self._committed)

    async def run(self) -> None:
        """Call `look` every 20 ms until cancelled."""
        while True:
            await asyncio.sleep(0.02)
            self.look()

    def _committed(self, before: ClusterImage, after: ClusterImage) -> None:
        for process in self._cluster.all_processes():
            broker = process.broker
            incarnation = broker.lifecycle.incarnation
            if incarnation is None or not before.is_alive(incarnation) or after.is_alive(incarnation):
                continue
            for tp, partition in broker.replicas.partitions.items():
                if partition.is_leader:
                    at = partition.log.log_end_offset, partition.high_watermark
                    self._standing[process.host.name, tp] = _Standstill(process, partition, partition.leader_epoch, at)

    def look(self) -> None:
        """Compare every fenced leader with its state when it was fenced."""
        running = list(self._cluster.all_processes())
        for (host, tp), stood in list(self._standing.items()):
            partition, broker = stood.partition, stood.process.broker
            # The log of a deleted replica is emptied, which moves its high watermark to its end.
            is_held = broker.replicas.partitions.get(tp) is partition
            leads = is_held and partition.is_leader and partition.leader_epoch == stood.leader_epoch
            own = broker.lifecycle.incarnation
            if stood.process not in running or not leads or (own is not None and self._cluster.image.is_alive(own)):
                del self._standing[host, tp]
                continue
            at = (partition.log.log_end_offset, partition.high_watermark)
            if at > stood.at:
                del self._standing[host, tp]
                what = f"it went from {stood.at} to {at} (log end, high watermark)"
                self._history.record(FencedAnswer(self._cluster.clock.now_ms(), broker.broker_id, str(tp), what))


def record_leaders(cluster: SimulatedCluster, history: History) -> None:
    """Record each leader epoch and each topic created again that the metadata store commits from now on."""
    ids: dict[str, bytes] = {}

    def committed(before: ClusterImage, after: ClusterImage) -> None:
        for name, topic in after.topics.items():
            earlier = before.topics.get(name)
            if topic is earlier:
                continue
            known = earlier.partitions if earlier is not None and earlier.topic_id == topic.topic_id else ()
            is_new = ids.setdefault(name, topic.topic_id) != topic.topic_id
            ids[name] = topic.topic_id
            for index, state in enumerate(topic.partitions):
                if is_new and index >= len(known):
                    history.record(TopicRecreated(cluster.clock.now_ms(), f"{name}-{index}"))
                if index >= len(known) or known[index].leader_epoch != state.leader_epoch:
                    now_ms = cluster.clock.now_ms()
                    history.record(LeaderElected(now_ms, f"{name}-{index}", state.leader, state.leader_epoch))

    cluster.store.committed.append(committed)
