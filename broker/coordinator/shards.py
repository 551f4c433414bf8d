"""The shards that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

The coordinator of a group, or of a transactional id, is the leader of the partition that its name is hashed to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import Shard, ShardState
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import OwnWork, Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.end_marker import read_end_marker
from purgatorio.protocol.errors import CorruptRecordError, DecodeError, ErrorCode
from purgatorio.protocol.record import read_key_and_value
from purgatorio.protocol.records import BatchHeader, iter_batches, unpack_records

logger = get_logger(__name__)

S = TypeVar("S", bound=Shard)

READ_BYTES: Final = 256 * 1024
"""The most bytes that are read at once, unless one batch is larger."""

RECORD_COST: Final = 6
"""The cost of replaying a batch, besides its records, and a record such as a committed offset (see `LongWork`)."""


class Shards(ABC, Generic[S]):
    """The shards of one broker, by partition of the coordinator's topic.

    Args:
        log: waits until what was loaded is committed.
        work: where it loads and unloads.
    """

    def __init__(
        self,
        topic: str,
        *,
        log: CoordinatorLog,
        replicas: ReplicaManager,
        image: Callable[[], ClusterImage],
        work: OwnWork,
    ) -> None:
        self._topic = topic
        self._log = log
        self._replicas = replicas
        self._image = image
        self._wake = work.whenever_woken(self.steps)
        self._shards: dict[TopicPartition, S] = {}
        self._work: deque[Steps] = deque()
        replicas.add_leadership_listener(self)

    def shard_of(self, name: str) -> S:
        """Return the shard of a group or transactional id that this broker coordinates; the name need not exist.

        Raises:
            CoordinatorError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS; COORDINATOR_NOT_AVAILABLE while the
                coordinator's topic does not exist.
        """
        topic = self._image().topics.get(self._topic)
        if topic is None:
            message = f"topic {self._topic} does not exist yet"
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        return self.shard_at(TopicPartition(self._topic, coordinator_partition(name, len(topic.partitions))))

    def shard_at(self, tp: TopicPartition) -> S:
        """Return the shard of a partition that this broker leads.

        Raises:
            CoordinatorError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        shard = self._shards.get(tp)
        try:
            # Also checks the lease: a broker that was fenced must not answer with the state of yesterday.
            self._replicas.lookup.find(tp).check_leader(-1)
        except PartitionError as error:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if shard is None or not shard.is_active:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{tp} is being loaded")
        return shard

    @property
    def shards(self) -> Iterable[S]:
        """The shards of the partitions that this broker leads, in any state."""
        return self._shards.values()

    # --- what differs between coordinators ---

    @abstractmethod
    def new_shard(self, tp: TopicPartition, leader_epoch: int) -> S:
        """Return an empty shard."""

    @abstractmethod
    def start_steps(self, shard: S) -> Steps:
        """Start the timers of a loaded shard, in steps; after the last one it answers requests."""

    @abstractmethod
    def unload_steps(self, shard: S) -> Steps:
        """Refuse the shard's parked requests with NOT_COORDINATOR, and stop its timers, in steps."""

    # --- leadership (see `LeadershipListener`) ---

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        """Load a partition that this broker leads from now on."""
        if tp.topic != self._topic:
            return
        self.resigned(tp)
        shard = self._shards[tp] = self.new_shard(tp, leader_epoch)
        partition = self._replicas.lookup.known(tp)
        if partition is not None and partition.log.log_end_offset == 0:
            shard.state = ShardState.ACTIVE  # a new topic: the first request need not wait for a turn of the loop
            return
        self._later(self._load(shard))

    def resigned(self, tp: TopicPartition) -> None:
        """Drop the state of a partition: its parked requests are refused with NOT_COORDINATOR."""
        shard = self._shards.pop(tp, None)
        if shard is not None:
            shard.state = ShardState.UNLOADED
            self._later(self.unload_steps(shard))

    # --- loading and unloading ---

    def steps(self) -> Steps:
        """Load and unload what waits for it, in steps between which the loop does its other work."""
        while self._work:
            yield from self._work.popleft()
            yield 0

    def _later(self, steps: Steps) -> None:
        self._work.append(steps)
        self._wake()

    def _load(self, shard: S) -> Steps:
        partition = self._replicas.lookup.known(shard.tp)
        if partition is None:
            return
        for cost in load_steps(shard.tp, partition.log, shard):
            if shard.state is ShardState.UNLOADED:
                return
            yield cost
        self._start_when_committed(shard)

    def _start_when_committed(self, shard: S) -> None:
        """Begin to answer once everything that was loaded is committed: before that it could be lost."""

        def failed(error_code: ErrorCode) -> None:
            if error_code != ErrorCode.NOT_COORDINATOR:  # that the broker stops, or has no lease, is logged already
                logger.warning("a coordinator waits for its replicas", partition=str(shard.tp), error=error_code.name)

        self._log.until_committed(shard, lambda: self._later(self._start(shard)), failed=failed)

    def _start(self, shard: S) -> Steps:
        """Start the timers, then answer requests."""
        for cost in self.start_steps(shard):
            if shard.state is not ShardState.LOADING:
                return
            yield cost
        if shard.state is ShardState.LOADING:
            shard.state = ShardState.ACTIVE
            logger.info("coordinator loaded", partition=str(shard.tp))


def load_steps(tp: TopicPartition, log: Log, shard: Shard) -> Steps:
    """Replay the log of a partition, in steps. Unreadable records are skipped and logged."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=READ_BYTES, end_offset=log.log_end_offset)
        if not read.parts:
            break
        for header, batch in iter_batches(b"".join(read.parts)):
            offset = header.last_offset + 1
            yield RECORD_COST
            yield from _replay_batch(tp, header, batch, shard)
        # The log may have been compacted meanwhile, which leaves a gap; or deleted up to a new start.
        offset = max(offset, log.log_start_offset)


def _replay_batch(tp: TopicPartition, header: BatchHeader, batch: memoryview, shard: Shard) -> Steps:
    """Replay the records of one batch."""
    try:
        if header.is_control:
            marker = read_end_marker(batch)
            if marker is not None:
                shard.replay_end(header, marker)
            return
        data = unpack_records(header, batch)
        position = 0
        for _ in range(header.record_count):
            key, value, position = read_key_and_value(data, position)
            try:
                cost = shard.replay(header, key, value)
            except DecodeError as error:
                logger.warning("a coordinator's record was skipped", partition=str(tp), why=str(error))
                cost = 1
            yield cost * RECORD_COST
    except (CorruptRecordError, IndexError) as error:
        logger.error("a coordinator's batch was skipped", partition=str(tp), why=str(error))
