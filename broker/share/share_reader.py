"""Looks at the partitions of share sessions, and acquires their records.

Records that only the tier has are read first, and acquired in the turn in which they are looked at again: nothing is
locked while the store is slow, and no delivery counts. (Apache Kafka holds its fetch locks during the read.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import OpenTransaction, RecordsLocked, SharePosition, ShareStateLoading
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.share.acquiring import AcquiredPart, AcquireLimits, Offsets, ReadBatches
from purgatorio.broker.share.share_partition import SharePartition, SharePartitionState
from purgatorio.broker.share.share_partitions import SharePartitions
from purgatorio.broker.share.share_session import SessionPartition, ShareSession
from purgatorio.broker.tier.reads import PartRead
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import BatchHeader, iter_batches
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import GroupWatch

ENOUGH: Final = 2**31 - 1
"""Stands for as many bytes as any request wants: there is a whole segment to read."""

LOOKED_PER_TURN: Final = 250
"""The most partitions that one fetch looks at in one turn of the event loop: some 35 µs each, if they are loaded."""

ACQUIRED_PER_TURN: Final = 200
"""The most partitions that one fetch acquires records of, in one turn of the event loop: some 0.1 ms each. The next
fetch goes on with the others."""


class Acquired(NamedTuple):
    """The records that a member got from one partition: whole record batches, and the offsets that are the member's."""

    parts: Sequence[Buffer]
    records: list[AcquiredPart]


NOTHING: Final = Acquired([], [])


class ShareSessionReader:
    """Looks at partitions, and acquires their records, for one broker's share sessions.

    Args:
        share_watch: gets the share partitions that were looked at, to hear of their next event.
        reads_committed: whether a group acquires no records of aborted transactions (share.isolation.level).

    Attributes:
        shares: the share partitions, which `look` has loaded.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        shares: SharePartitions,
        share_watch: GroupWatch[SharePartitionKey, SessionPartition],
        reads_committed: Callable[[str], bool],
    ) -> None:
        self._replicas = replicas
        self.shares = shares
        self._share_watch = share_watch
        self._reads_committed = reads_committed

    # --- looks ---

    def look(self, session: ShareSession) -> None:
        """Look at the partitions that had an event since the last look; at so many at most, and at the others later."""
        for partition in list(islice(session.marked, LOOKED_PER_TURN)):
            del session.marked[partition]
            try:
                available_bytes = self._available_bytes(session, partition)
            except PartitionError as error:  # the next fetch looks again, and none waits meanwhile
                session.looked_at(partition, 0, error.with_traceback(None))
                continue
            session.looked_at(partition, available_bytes, None)
            self._share_watch.watch(partition.key, partition)
            self._replicas.share_watch.watch(partition.tp, partition)

    def is_due(self, session: ShareSession, min_bytes: int) -> bool:
        """Return whether a fetch of a session is to be answered, by a look at every partition that changes nothing.

        Partitions whose state was not asked for yet do not count: a look asks.
        """
        total_bytes = 0
        for partition in session.partitions.values():
            if self.shares.known(partition.key) is None:
                continue
            try:
                replica = self._led(partition.key, partition.tp)
            except PartitionError:
                return True
            share = self.shares.known(partition.key)
            if share is not None and share.leader_epoch == replica.leader_epoch:
                total_bytes += self._bytes_to_acquire(session, share, replica)
        return 0 < total_bytes >= min_bytes and session.holder.room > 0

    def release(self, partition: SessionPartition) -> None:
        """Let no event mark a partition any more: it has left its session."""
        self._share_watch.discard(partition.key, partition)
        self._replicas.share_watch.discard(partition.tp, partition)

    def _available_bytes(self, session: ShareSession, partition: SessionPartition) -> int:
        share, replica = self._find(partition)
        available_bytes = self._bytes_to_acquire(session, share, replica)
        if not available_bytes and share.may_acquire():
            offset = share.next_fetch_offset()
            if offset < min(replica.log.local_start_offset, self._end_offset(session.group_id, replica)):
                self._read_tier(partition, replica, offset)
        return available_bytes

    def _read_tier(self, partition: SessionPartition, replica: Partition, offset: int) -> None:
        """Begin the read of a part that only the tier has, or join one; its end marks the partition.

        Raises:
            PartitionError: the read that the partition has waited for has failed, or none can begin.
        """
        tiering, read = self._replicas.tiering, partition.read
        assert tiering is not None, "without a tier all records are in memory"
        partition.read = None
        if read is not None and read.has_failed:
            raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, read.trouble)
        if tiering.withholds(replica, offset):
            return
        read = tiering.part_at(replica, offset)
        if read is not None:
            partition.read = read
            read.listeners[partition] = partial(self._read_ended, partition, read)

    def _read_ended(self, partition: SessionPartition, read: PartRead) -> None:
        if partition.read is read and not read.has_failed:
            partition.read = None  # the cache has it; a session that asks no more is not to keep it
        self._replicas.check_share_fetches(partition.tp, "remote read")

    def _bytes_to_acquire(self, session: ShareSession, share: SharePartition, replica: Partition) -> int:
        if not share.may_acquire():
            return 0
        offset = share.next_fetch_offset()
        end_offset = self._end_offset(session.group_id, replica)
        if offset >= end_offset:
            return 0
        tiering = self._replicas.tiering
        if tiering is not None and offset < replica.log.local_start_offset:
            return 0 if tiering.kept_part(replica, offset) is None else ENOUGH
        if replica.log.is_on_older_segment(offset, end_offset):
            return ENOUGH
        return max(1, replica.log.size_between(offset, end_offset))

    def _find(self, partition: SessionPartition) -> tuple[SharePartition, Partition]:
        """Return a partition as its group consumes it, and this broker's replica; its state may be being loaded.

        Raises:
            PartitionError: with the error code for the member.
        """
        replica = self._led(partition.key, partition.tp)
        share = self.shares.of(partition.key, replica)
        share.log_start_moved(replica.log.log_start_offset)
        return share, replica

    def _end_offset(self, group_id: str, replica: Partition) -> int:
        return replica.last_stable_offset if self._reads_committed(group_id) else replica.high_watermark

    def check_leads(self, key: SharePartitionKey, tp: TopicPartition) -> None:
        """Check that this broker leads a partition.

        Raises:
            PartitionError: with the error code for the member.
        """
        self._led(key, tp)

    def _led(self, key: SharePartitionKey, tp: TopicPartition) -> Partition:
        if tp.topic == key.topic_id.hex() and self._replicas.lookup.known(tp) is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {tp.topic}")
        replica = self._replicas.lookup.find(tp)
        replica.check_leader(-1)
        if replica.topic_id != key.topic_id:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID, f"{tp} has another topic id")
        return replica

    def position(self, partition: SessionPartition) -> SharePosition:
        """Return where a session is on a partition, and why nothing can be acquired there."""
        share, replica = self.shares.known(partition.key), self._replicas.lookup.known(partition.tp)
        if share is None or replica is None or share.state is not SharePartitionState.ACTIVE:
            return SharePosition(partition.tp, -1, ShareStateLoading())
        offset = share.next_fetch_offset()
        if not share.may_acquire():
            return SharePosition(partition.tp, offset, RecordsLocked(share.in_flight.record_count))
        tiering = self._replicas.tiering
        if tiering is not None and replica.log.log_start_offset <= offset < replica.log.local_start_offset:
            quota = tiering.quota_cause(partition.tp) if partition.read is None else None
            return SharePosition(partition.tp, offset, quota or tiering.cause_of(partition.tp, partition.read))
        return SharePosition(partition.tp, offset, self._open_transaction(partition, replica, offset))

    def _open_transaction(self, partition: SessionPartition, replica: Partition, offset: int) -> OpenTransaction | None:
        if not self._reads_committed(partition.key.group_id) or offset < replica.last_stable_offset:
            return None
        return self._replicas.reader.open_transaction(replica)

    # --- acquiring ---

    def acquire(
        self, session: ShareSession, limits: AcquireLimits
    ) -> Iterator[tuple[SessionPartition, Acquired, PartitionError | None]]:
        """Acquire records of the partitions that are worth it, in turn; yields what each gives, or why it does not.

        Args:
            limits: of all partitions together.
        """
        worth = session.in_turn(session.worth)
        left_records = limits.max_records
        fair_bytes = limits.max_bytes // max(1, len(worth))
        is_first = True
        left_partitions = ACQUIRED_PER_TURN
        for partition in worth:
            session.marked[partition] = None
            if (told := partition.error) is not None:
                session.looked_at(partition, 0, None)
                yield partition, NOTHING, told
                continue
            if left_records <= 0 or left_partitions <= 0:
                continue
            try:
                left = limits._replace(max_bytes=fair_bytes, max_records=left_records)
                acquired = self._acquire_from(session, partition, left, is_first)
            except PartitionError as error:
                yield partition, NOTHING, error
                continue
            is_first = is_first and not acquired.parts
            left_partitions -= 1
            left_records -= sum(each.last_offset - each.first_offset + 1 for each in acquired.records)
            yield partition, acquired, None

    def _acquire_from(
        self, session: ShareSession, partition: SessionPartition, limits: AcquireLimits, is_first: bool
    ) -> Acquired:
        share, replica = self._find(partition)
        if not share.may_acquire():
            return NOTHING
        reads_committed = self._reads_committed(session.group_id)
        offset, end_offset = share.next_fetch_offset(), self._end_offset(session.group_id, replica)
        unread = (
            found
            for part in self._read(replica, offset, limits.max_bytes, end_offset, min_one=is_first)
            for found in iter_batches(part)
        )
        while batches := _up_to(share.in_flight.reach(limits.max_records), unread):
            headers = [header for header, _ in batches]
            found = ReadBatches(
                offset,
                [Offsets(header.base_offset, header.last_offset) for header in headers],
                self._of_aborted_transactions(replica, headers) if reads_committed else (),
            )
            acquired = share.acquire(session.holder, found, limits)
            if acquired:
                return Acquired(_with_records_of(acquired, batches), acquired)
            offset = share.next_fetch_offset()
            if offset <= headers[-1].last_offset:
                break  # these records have to wait; of others, no member gets any, and the next ones are read
        return NOTHING

    def _read(
        self, replica: Partition, offset: int, max_bytes: int, end_offset: int, *, min_one: bool
    ) -> Sequence[Buffer]:
        """Return whole batches from an offset on, from memory or from a part that was read from the tier."""
        tiering = self._replicas.tiering
        if tiering is None or offset >= replica.log.local_start_offset:
            return replica.log.read(offset, max_bytes=max_bytes, end_offset=end_offset, min_one=min_one).parts
        part = tiering.kept_part(replica, offset)
        if part is None:  # it has left the cache since the look: the next one reads it again
            return ()
        records, next_offset = part.batches(offset, max_bytes, end_offset, min_one=min_one)
        if next_offset == part.end_offset:
            tiering.read_ahead(replica, next_offset)
        return (records,)

    def _of_aborted_transactions(self, replica: Partition, headers: Sequence[BatchHeader]) -> list[Offsets]:
        """Return the batches of aborted transactions among these: their producers' batches up to the end marker."""
        start_offset, end_offset = headers[0].base_offset, headers[-1].last_offset + 1
        tiering = self._replicas.tiering
        if tiering is None or start_offset >= replica.log.local_start_offset:
            first_offsets, producer_ids = replica.log.aborted_transactions(start_offset, end_offset)
            return _aborted_among(headers, first_offsets, producer_ids)
        found = tiering.aborted(replica, start_offset, end_offset)
        return _aborted_among(headers, [first for first, _ in found], [producer for _, producer in found])


def _with_records_of(
    acquired: Sequence[AcquiredPart], batches: Sequence[tuple[BatchHeader, memoryview]]
) -> list[memoryview]:
    """Return the batches from the first record that was acquired to the last one."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    return [batch for header, batch in batches if header.last_offset >= first and header.base_offset <= last]


def _up_to(last_offset: int, unread: Iterator[tuple[BatchHeader, memoryview]]) -> list[tuple[BatchHeader, memoryview]]:
    """Take batches up to the one that has an offset, or a higher one."""
    taken = []
    for header, batch in unread:
        taken.append((header, batch))
        if header.last_offset >= last_offset:
            break
    return taken


def _aborted_among(
    headers: Sequence[BatchHeader], first_offsets: Sequence[int], producer_ids: Sequence[int]
) -> list[Offsets]:
    begun: set[int] = set()
    nth, found = 0, []
    for header in headers:
        while nth < len(first_offsets) and first_offsets[nth] <= header.last_offset:
            begun.add(producer_ids[nth])
            nth += 1
        if header.is_control:
            begun.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in begun:
            found.append(Offsets(header.base_offset, header.last_offset))
    return found
