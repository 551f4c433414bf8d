"""Random histories of a log against a model that is a list of batches in a list of segments, and nothing clever."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import LogError, OffsetOutOfRange
from purgatorio.broker.log.log import Log
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import iter_records
from tests.batches import batches_of
from tests.histories import seeds

STEPS = 150


@dataclass
class ModelBatch:
    first: int
    records: list[Record]
    epoch: int
    size_bytes: int
    producer: tuple[int, int, int]

    @property
    def next(self) -> int:
        return self.first + len(self.records)

    @property
    def max_ms(self) -> int:
        return max(record.timestamp_ms for record in self.records)


@dataclass
class Model:
    """What a log is, by its plainest definition."""

    segment_bytes: int
    segment_ms: int
    start: int = 0
    end: int = 0
    segments: list[list[ModelBatch]] = field(default_factory=lambda: [[]])

    @property
    def batches(self) -> list[ModelBatch]:
        return [batch for segment in self.segments for batch in segment]

    def append(self, batch: ModelBatch) -> None:
        active = self.segments[-1]
        too_large = sum(b.size_bytes for b in active) + batch.size_bytes > self.segment_bytes
        too_long = bool(active) and batch.max_ms - active[0].max_ms > self.segment_ms
        if active and (too_large or too_long):
            self.segments.append([])
        self.segments[-1].append(batch)
        self.end = batch.next

    def read(self, offset: int, max_bytes: int, end_offset: int, min_one: bool) -> list[ModelBatch]:
        found: list[ModelBatch] = []
        for batch in self.batches:
            if batch.next <= offset:
                continue
            fits = sum(b.size_bytes for b in found) + batch.size_bytes <= max_bytes
            if batch.next > end_offset or not (fits or (min_one and not found)):
                break
            found.append(batch)
        return found if offset < end_offset else []

    def truncate(self, offset: int) -> None:
        if offset >= self.end:
            return
        if not self.batches or offset < self.segments[0][0].first:
            self.segments, self.start, self.end = [[]], offset, offset
            return
        kept = [[batch for batch in segment if batch.next <= offset] for segment in self.segments]
        cut = next((batch for batch in self.batches if batch.first < offset < batch.next), None)
        self.segments = [segment for segment in kept if segment] or [[]]
        self.end = cut.first if cut else offset
        self.start = min(self.start, self.end)

    def advance(self, offset: int) -> None:
        offset = min(offset, self.end)
        if offset > self.start:
            self.start = offset
            self.segments = [segment for segment in self.segments if segment and segment[-1].next > offset] or [[]]

    def retain(self, wall_ms: int, high_watermark: int, retention_ms: int, retention_bytes: int) -> None:
        while self.batches and self.segments[0][-1].next <= high_watermark:
            oldest = self.segments[0]
            total = sum(batch.size_bytes for batch in self.batches)
            too_old = max(batch.max_ms for batch in oldest) < wall_ms - retention_ms
            if not too_old and total - sum(batch.size_bytes for batch in oldest) < retention_bytes:
                return
            self.start = max(self.start, oldest[-1].next)
            self.segments = self.segments[1:] or [[]]

    def epochs(self) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        for batch in self.batches:
            if not entries or entries[-1][0] != batch.epoch:
                entries.append((batch.epoch, max(batch.first, self.start)))
            elif batch.first <= self.start < batch.next:
                entries[-1] = (batch.epoch, self.start)
        return [entry for n, entry in enumerate(entries) if n + 1 == len(entries) or entries[n + 1][1] > self.start]


class Run:
    """One history: each step is done to the log and to the model, and then they are compared."""

    def __init__(self, seed: int, batch_of) -> None:
        self.rng = random.Random(seed)
        self.batch_of = batch_of
        self.retention_ms = self.rng.choice([300, 3000])
        self.retention_bytes = self.rng.choice([500, 3000])
        config = LogConfig(
            segment_bytes=self.rng.choice([200, 600, 5000]),
            segment_ms=self.rng.choice([200, 100_000]),
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
        )
        self.log = Log(config)
        self.model = Model(config.segment_bytes, config.segment_ms)
        self.wall_ms = 1000
        self.epoch = 0

    def append(self) -> None:
        rng, count = self.rng, self.rng.randrange(1, 4)
        self.wall_ms += rng.randrange(100)
        self.epoch += rng.random() < 0.1
        times = tuple(max(0, self.wall_ms - rng.randrange(200)) for _ in range(count))
        producer = rng.choice([-1, 1, 2])
        sequence = self.next_sequence(producer)
        values = [b"v%d" % rng.randrange(1000) for _ in range(count)]
        batch = self.batch_of(
            *values,
            at_ms=times,
            producer=(producer, 0, sequence) if producer > 0 else None,
            compression=rng.choice(list(Compression)),
        )
        info = self.log.append_as_leader(batch, leader_epoch=self.epoch, wall_ms=self.wall_ms)
        first = self.model.end
        assert (info.first_offset, info.last_offset, info.duplicate) == (first, first + count - 1, False)
        records = [
            Record(first + n, time, None, value) for n, (time, value) in enumerate(zip(times, values, strict=True))
        ]
        self.model.append(ModelBatch(first, records, self.epoch, len(batch), (producer, sequence, count)))
        if producer > 0:
            again = self.log.append_as_leader(batch, leader_epoch=self.epoch, wall_ms=self.wall_ms)
            assert again.duplicate
            assert again.first_offset == first

    def next_sequence(self, producer: int) -> int:
        """What comes next for a producer: after its last batch that is still there, else whatever the log remembers."""
        state = self.log.producers.get(producer)
        known = state.next_sequence if state is not None else 0
        last = next((b.producer for b in reversed(self.model.batches) if b.producer[0] == producer), None)
        assert producer < 0 or last is None or known == last[1] + last[2]
        return known

    def truncate(self) -> None:
        low = max(0, self.model.end - 12)
        offset = self.rng.randrange(low, self.model.end + 2)
        self.log.truncate_to(offset)
        self.model.truncate(offset)

    def advance(self) -> None:
        offset = self.rng.randrange(self.model.start, self.model.end + 1)
        if self.rng.random() < 0.5:
            offset = min(offset, self.model.start + 3)
        self.log.advance_log_start(offset)
        self.model.advance(offset)

    def retain(self) -> None:
        high_watermark = self.rng.randrange(self.model.start, self.model.end + 1)
        before = self.log.size_bytes
        deleted = self.log.apply_retention(self.wall_ms, high_watermark)
        self.model.retain(self.wall_ms, high_watermark, self.retention_ms, self.retention_bytes)
        assert before - self.log.size_bytes == deleted

    def compare(self) -> None:
        log, model, rng = self.log, self.model, self.rng
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.segment_count == len(model.segments)
        assert log.size_bytes == sum(batch.size_bytes for batch in model.batches)
        offset = rng.randrange(max(0, model.start - 2), model.end + 2)
        end_offset = rng.randrange(model.end + 1)
        self.compare_read(offset, rng.choice([0, 100, 500, 10**6]), end_offset, rng.random() < 0.5)
        if offset <= model.end and end_offset >= offset >= model.start:
            whole = [b for b in model.batches if b.next > offset and b.next <= end_offset]
            assert log.size_between(offset, end_offset) == sum(batch.size_bytes for batch in whole)
        self.compare_times(rng.randrange(self.wall_ms + 100))

    def compare_read(self, offset: int, max_bytes: int, end_offset: int, min_one: bool) -> None:
        try:
            read = self.log.read(offset, max_bytes=max_bytes, end_offset=end_offset, min_one=min_one)
        except OffsetOutOfRange:
            assert not self.model.start <= offset <= self.model.end
            return
        expected = self.model.read(offset, max_bytes, end_offset, min_one)
        assert [list(iter_records(part)) for part in batches_of(read.parts)] == [batch.records for batch in expected]
        assert read.size_bytes == sum(batch.size_bytes for batch in expected)
        assert read.next_offset == (expected[-1].next if expected else offset)

    def compare_times(self, timestamp_ms: int) -> None:
        visible = [(r, b.epoch) for b in self.model.batches for r in b.records if r.offset >= self.model.start]
        later = [(r.offset, r.timestamp_ms, epoch) for r, epoch in visible if r.timestamp_ms >= timestamp_ms]
        assert self.log.offset_for_timestamp(timestamp_ms, self.model.end) == (later[0] if later else None)
        newest = max(visible, key=lambda pair: (pair[0].timestamp_ms, -pair[0].offset), default=None)
        found = self.log.max_timestamp(self.model.end)
        assert found == (None if newest is None else (newest[0].offset, newest[0].timestamp_ms, newest[1]))

    def compare_follower(self) -> None:
        """A follower that starts where the log starts ends up with the same."""
        follower = Log(self.log.config)
        follower.truncate_fully_and_start_at(self.log.log_start_offset)
        while follower.log_end_offset < self.log.log_end_offset:
            read = self.log.read(follower.log_end_offset, max_bytes=300, end_offset=self.log.log_end_offset)
            follower.append_as_follower(b"".join(read.parts), wall_ms=self.wall_ms)
        assert follower.log_start_offset == self.log.log_start_offset
        assert follower.size_bytes == sum(
            b.size_bytes for b in self.model.batches if b.next > self.log.log_start_offset
        )


@pytest.mark.parametrize("seed", seeds(60, quick=3))
def test_a_log_does_what_the_model_does(seed: int, batch_of) -> None:
    run = Run(seed, batch_of)
    for _ in range(STEPS):
        step = run.rng.choices([run.append, run.truncate, run.advance, run.retain], [12, 1, 1, 1])[0]
        step()
        run.compare()
    run.compare_follower()


@pytest.mark.parametrize("seed", seeds(20, quick=3))
def test_epochs_are_those_of_the_batches(seed: int, batch_of) -> None:
    run = Run(seed, batch_of)
    for _ in range(STEPS):
        run.rng.choices([run.append, run.truncate], [12, 1])[0]()
        assert run.log.epochs.entries == run.model.epochs()


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_nothing_but_errors_of_logs_comes_out_of_damaged_batches(seed: int, batch_of) -> None:
    """And the log is as before, whatever was sent."""
    rng = random.Random(seed)
    log = Log(LogConfig(compression_type=rng.choice(["producer", "gzip"]), segment_bytes=2000))
    log.append_as_leader(batch_of(b"first"), leader_epoch=0, wall_ms=1000)
    for _ in range(300):
        damaged = bytearray(batch_of(b"v", b"w", producer=(1, 0, 0), compression=rng.choice(list(Compression))))
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        before = (log.log_end_offset, log.size_bytes, log.epochs.entries, len(log.producers))
        for send in (
            lambda data: log.append_as_leader(data, leader_epoch=1, wall_ms=1000),
            lambda data: log.append_as_follower(data),
        ):
            try:
                info = send(bytes(damaged))
            except LogError:
                info = None
            if info is None:
                assert (log.log_end_offset, log.size_bytes, log.epochs.entries, len(log.producers)) == before
            before = (log.log_end_offset, log.size_bytes, log.epochs.entries, len(log.producers))
