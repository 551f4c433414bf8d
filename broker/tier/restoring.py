"""The part of a log that the tier has, with which a log of a new cluster begins.

After a kill the tier has a prefix of a log: what was neither closed nor copied is lost. It may have copies of several
leaders, some of records that were truncated when another one was elected uncleanly. The newest leader's is the log's,
and its description has the leader epochs of all that lies before, by which the others are found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from purgatorio.broker.log.epochs import LeaderEpochs
from purgatorio.broker.log.producer_state import ProducerSnapshot
from purgatorio.broker.tier.remote_segments import RemoteSegments
from purgatorio.broker.tier.segment_file import RemoteSegment


class PartInTier(NamedTuple):
    """The part of a log that the tier has, without a hole.

    Attributes:
        end_offset: the offset after its last record.
        epochs: the leader epochs up to there, with their start offsets.
        producers: the producers' state at its end; None: it is not known.
        segment_count: of how many segments it consists.
    """

    log_start_offset: int
    end_offset: int
    epochs: tuple[tuple[int, int], ...]
    producers: ProducerSnapshot | None
    segment_count: int


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
    start_offset = max(first_offset, _start_of_run(segments, last.end_offset))
    count = sum(each.end_offset > start_offset for each in segments)
    return PartInTier(start_offset, last.end_offset, last.epochs, last.producers, count)


def _start_of_run(segments: Iterable[RemoteSegment], end_offset: int) -> int:
    """Return where the segments, by their starts, begin to have all up to an offset."""
    start_offset = run_end = -1
    for each in segments:
        if each.start_offset > run_end:
            start_offset = each.start_offset
        run_end = max(run_end, each.end_offset)
    return start_offset if run_end >= end_offset else end_offset
