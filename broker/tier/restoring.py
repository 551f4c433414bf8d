"""The part of a log that the tier has, with which a log of a new cluster begins.

After a kill the tier has a prefix of a log: what was neither closed nor copied is lost. It may have copies of several
leaders, some of records that were truncated when another one was elected uncleanly. The newest leader's is the log's,
and its description has the leader epochs of all that lies before, by which the others are found.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from purgatorio.broker.log.epochs import LeaderEpochs
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.producer_state import ProducerSnapshot
from purgatorio.broker.tier.names import SegmentName
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.remote_segments import RemoteSegments
from purgatorio.broker.tier.segment_file import RemoteSegment, epochs_up_to


class PartInTier(NamedTuple):
    """The part of a log that the tier has, without a hole.

    Attributes:
        end_offset: the offset after its last record.
        epochs: the leader epochs up to there, with their start offsets.
        producers: the producers' state at its end; None: it is not known.
        segments: those of which it consists, each with the offset after its last record, by their starts.
    """

    log_start_offset: int
    end_offset: int
    epochs: tuple[tuple[int, int], ...]
    producers: ProducerSnapshot | None
    segments: tuple[tuple[SegmentName, int], ...]

    def start_with(self, names: Container[SegmentName]) -> int:
        """Return where the log begins if the tier has only the segments of these names: it has no hole."""
        start_offset = run_end = -1
        for name, end_offset in self.segments:
            if name in names:
                if name.start_offset > run_end:
                    start_offset = name.start_offset
                run_end = max(run_end, end_offset)
        return max(start_offset, self.log_start_offset) if run_end >= self.end_offset else self.end_offset


def part_in_tier(described: Collection[RemoteSegment], log_start_offset: int) -> PartInTier | None:
    """Return what segments have of a log, from its start on as far as that is known; None: nothing.

    If a segment is missing, or was damaged, the log begins behind it: a log has no hole.
    """
    known = (each for each in described if each.epochs)
    last = max(known, key=lambda each: (each.epochs[-1], each.end_offset, each.name), default=None)
    if last is None or last.end_offset <= log_start_offset:
        return None
    epochs = LeaderEpochs()
    for epoch, start_offset in last.epochs:
        epochs.assign(epoch, start_offset)
    first_offset = max(log_start_offset, last.epochs[0][1])
    segments = RemoteSegments.of_log(described, epochs, first_offset, last.end_offset)
    part = PartInTier(first_offset, last.end_offset, last.epochs, last.producers, _named(segments))
    start_offset = part.start_with({name for name, _ in part.segments})
    segments_since = tuple(each for each in part.segments if each[1] > start_offset)
    return part._replace(log_start_offset=start_offset, segments=segments_since)


def part_of(remote: RemoteLog, log: Log) -> PartInTier | None:
    """Return the part of a log that only the tier has, as far as the store was listed; None: there is none."""
    if log.log_start_offset >= log.local_start_offset:
        return None
    segments = (each for each in remote.segments if each.start_offset < log.local_start_offset)
    return PartInTier(
        log.log_start_offset,
        log.local_start_offset,
        epochs_up_to(log.epochs.entries, log.local_start_offset),
        log.first_producers,
        _named(segments),
    )


def _named(segments: Iterable[RemoteSegment]) -> tuple[tuple[SegmentName, int], ...]:
    return tuple((each.name, each.end_offset) for each in segments)
