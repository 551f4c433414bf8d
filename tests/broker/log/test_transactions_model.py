"""Random histories of transactions in a log and its follower, against a list of what was written.

The model knows each record's transaction and how that ended. The reader does with a log's answers what a consumer under
read_committed does (KIP-98).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.protocol.end_marker import EndMarker, build_end_marker, read_end_marker
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches, iter_records
from tests.broker.log.compacting import compact
from tests.histories import seeds

STEPS = 160
PRODUCERS = (1, 2, 3, 4)
KEYS = (b"a", b"b", b"c", b"d", b"e")
RETENTION_MS = 500
Content = tuple[int, bytes | None, bytes | None]


@dataclass
class Transaction:
    """A transaction of the model; `marker_offset` is None while it is open."""

    producer_id: int
    first_offset: int
    marker_offset: int | None = None
    committed: bool = False


@dataclass
class Written:
    """A record of the model."""

    content: Content
    transaction: Transaction | None


def committed_records(log: Log, start_offset: int, high_watermark: int, max_bytes: int) -> Iterator[Content]:
    """Read as a consumer under read_committed: it drops the transactions that the answers name, up to their markers."""
    offset, stable_offset = start_offset, log.last_stable_offset(high_watermark)
    while offset < stable_offset:
        read = log.read(offset, max_bytes=max_bytes, end_offset=stable_offset)
        aborted = deque(zip(*log.aborted_transactions(offset, read.next_offset), strict=True))
        assert list(aborted) == sorted(aborted)
        dropped: set[int] = set()
        for header, batch in (pair for part in read.parts for pair in iter_batches(part)):
            while aborted and aborted[0][0] <= header.last_offset:
                dropped.add(aborted.popleft()[1])
            if header.is_control:
                marker = read_end_marker(batch)
                if marker is not None and not marker.committed:
                    dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropped):
                for record in iter_records(batch):
                    if record.offset >= offset:
                        yield record.offset, record.key, record.value
        if read.next_offset == offset:
            return  # compaction has left nothing up to the end
        offset = read.next_offset


class History:
    """A leader's log, its follower's, and the model."""

    def __init__(self, seed: int, *, compact: bool) -> None:
        self.rng = random.Random(seed)
        policy = ("compact", "delete") if compact else ("delete",)
        config = LogConfig(
            cleanup_policy=policy,
            segment_bytes=self.rng.choice([300, 700, 4000]),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=RETENTION_MS,
        )
        self.is_compacted = compact
        self.leader, self.follower = Log(config), Log(config)
        self.high_watermark = 0
        self.wall_ms = 10_000
        self.written: list[Written] = []
        self.transactions: list[Transaction] = []
        self.sequences: dict[tuple[int, int], int] = {}
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.follower_restarted = False

    # --- steps ---

    def step(self) -> None:
        self.wall_ms += self.rng.randrange(50)
        step = self.rng.choices(
            [self.plain, self.send, self.end, self.commit, self.truncate, self.delete, self.compact, self.replicate],
            [2, 8, 6, 6, 1, 1, 2, 4],
        )[0]
        step()

    def _open(self, producer_id: int) -> Transaction | None:
        for transaction in self.transactions:
            if transaction.producer_id == producer_id and transaction.marker_offset is None:
                return transaction
        return None

    def _append(self, producer_id: int, transaction: Transaction | None) -> None:
        count, offset = self.rng.randrange(1, 4), self.leader.log_end_offset
        records = [
            Record(n, 1000, self.rng.choice(KEYS), self.rng.choice([None, b"%d" % (offset + n)])) for n in range(count)
        ]
        epoch = self.epochs.get(producer_id, -1)
        sequence = self.sequences.get((producer_id, epoch), 0)
        batch = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transaction is not None,
        )
        self.leader.append_as_leader(batch, leader_epoch=0, wall_ms=self.wall_ms)
        self.sequences[producer_id, epoch] = sequence + count
        for record in records:
            self.written.append(Written((offset + record.offset, record.key, record.value), transaction))

    def plain(self) -> None:
        self._append(-1, None)

    def send(self) -> None:
        producer_id = self.rng.choice(PRODUCERS)
        transaction = self._open(producer_id)
        if transaction is None:
            transaction = Transaction(producer_id, self.leader.log_end_offset)
            self.transactions.append(transaction)
        self._append(producer_id, transaction)

    def end(self) -> None:
        """Append a marker, sometimes where nothing is open, sometimes of a new epoch (the coordinator fences)."""
        producer_id, committed = self.rng.choice(PRODUCERS), self.rng.random() < 0.5
        if not committed and self.rng.random() < 0.2:
            self.epochs[producer_id] += 1
        transaction = self._open(producer_id)
        if transaction is not None:
            transaction.marker_offset, transaction.committed = self.leader.log_end_offset, committed
        marker = build_end_marker(
            EndMarker(committed, 0),
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            timestamp_ms=self.wall_ms,
        )
        self.leader.append_as_leader(marker, leader_epoch=0, wall_ms=self.wall_ms, from_client=False)

    def commit(self) -> None:
        """Advance the high watermark, which never lies within a batch; the follower has everything below it."""
        ends = [last_offset + 1 for segment in self.leader._segments for last_offset in segment.last_offsets]
        to = self.rng.choice([self.high_watermark, *(end for end in ends if end > self.high_watermark)])
        while self.follower.log_end_offset < to:
            self.replicate()
        self.high_watermark = max(self.high_watermark, to)

    def truncate(self) -> None:
        """Both logs lose what is not committed, from the start of a batch on."""
        to = self.rng.randrange(self.high_watermark, self.leader.log_end_offset + 1)
        self.leader.truncate_to(to)
        end = self.leader.log_end_offset
        self.high_watermark = min(self.high_watermark, end)
        self.follower.truncate_to(end)
        self.written = [each for each in self.written if each.content[0] < end]
        self.transactions = [each for each in self.transactions if each.first_offset < end]
        for transaction in self.transactions:
            if transaction.marker_offset is not None and transaction.marker_offset >= end:
                transaction.marker_offset = None
        self.sequences.clear()
        for producer_id in PRODUCERS:
            state = self.leader.producers.get(producer_id)
            if state is not None:
                self.sequences[producer_id, state.epoch] = state.next_sequence

    def delete(self) -> None:
        start = min(self.leader.log_start_offset + self.rng.randrange(20), self.high_watermark)
        self.leader.advance_log_start(start)

    def compact(self) -> None:
        for log in (self.leader, self.follower):
            if self.rng.random() < 0.7:
                compact(log, min(self.high_watermark, log.log_end_offset), self.wall_ms)

    def replicate(self) -> None:
        follower, leader = self.follower, self.leader
        if follower.log_end_offset < leader.log_start_offset:
            follower.truncate_fully_and_start_at(leader.log_start_offset)
            self.follower_restarted = True
        read = leader.read(
            follower.log_end_offset, max_bytes=self.rng.choice([1, 300, 3000]), end_offset=leader.log_end_offset
        )
        if read.parts:
            follower.append_as_follower(b"".join(read.parts), wall_ms=self.wall_ms)
        follower.advance_log_start(leader.log_start_offset)

    # --- checks ---

    def check(self) -> None:
        self.check_stable_offset()
        start_offset, stable_offset = self.leader.log_start_offset, self.leader.last_stable_offset(self.high_watermark)
        offset = self.rng.randrange(start_offset, max(stable_offset, start_offset) + 1)
        max_bytes = self.rng.choice([1, 200, 5000])
        self.check_read(self.leader, offset, stable_offset, max_bytes)
        follower_high_watermark = min(self.high_watermark, self.follower.log_end_offset)
        if self.follower.log_start_offset <= offset <= follower_high_watermark:
            stable_offset = self.follower.last_stable_offset(follower_high_watermark)
            self.check_read(self.follower, offset, stable_offset, max_bytes)

    def check_stable_offset(self) -> None:
        log, high_watermark = self.leader, self.high_watermark
        unstable = [
            each.first_offset
            for each in self.transactions
            if each.marker_offset is None or each.marker_offset >= high_watermark
        ]
        expected = min(high_watermark, max(log.log_start_offset, min(unstable, default=high_watermark)))
        assert log.last_stable_offset(high_watermark) == expected
        if not self.rng.randrange(10) and min(unstable, default=high_watermark) >= log.log_start_offset:
            assert self.fresh_copy().last_stable_offset(high_watermark) == expected
        level = self.follower.log_end_offset == log.log_end_offset
        if level and self.follower.log_start_offset == log.log_start_offset and not self.follower_restarted:
            assert self.follower.last_stable_offset(high_watermark) == expected

    def fresh_copy(self) -> Log:
        """A follower that begins now, and so knows what the leader's batches tell."""
        fresh, leader = Log(self.leader.config), self.leader
        fresh.truncate_fully_and_start_at(leader.log_start_offset)
        read = leader.read(leader.log_start_offset, max_bytes=10**9, end_offset=leader.log_end_offset)
        fresh.append_as_follower(b"".join(read.parts))
        return fresh

    def check_read(self, log: Log, offset: int, stable_offset: int, max_bytes: int) -> None:
        seen = list(committed_records(log, offset, self.high_watermark, max_bytes))
        expected = [
            each.content
            for each in self.written
            if offset <= each.content[0] < stable_offset and (each.transaction is None or each.transaction.committed)
        ]
        if not self.is_compacted:
            assert seen == expected
            return
        assert [content for content in expected if content in seen] == seen
        newest = {content[1]: content for content in expected}
        for content in newest.values():  # tombstones leave in the end
            assert content in seen or content[2] is None


@pytest.mark.parametrize("compact", [False, True], ids=["plain", "compacted"])
@pytest.mark.parametrize("seed", seeds(25, quick=3))
def test_readers_and_followers_see_what_the_model_says(seed: int, compact: bool) -> None:
    history = History(seed, compact=compact)
    for _ in range(STEPS):
        history.step()
        history.check()
