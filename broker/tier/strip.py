"""A tiered log as a strip: what of it only the tier has, what memory has too, what only memory has, what is damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from purgatorio.broker.log.log import Log
from purgatorio.broker.tier.remote_log import RemoteLog

REMOTE: Final = "remote"
BOTH: Final = "both"
LOCAL: Final = "local"
DAMAGED: Final = "damaged"
NO_LIMIT: Final = 2**31


class Run(NamedTuple):
    """Records side by side that are kept alike.

    Attributes:
        end_offset: the offset after the last one.
        kind: `REMOTE`, `BOTH`, `LOCAL` or `DAMAGED`: the tier alone should have them, and what it has is of no use.
        size_bytes: of a run that the tier alone has, that of its objects; they may begin before the log's start.
        segment_count: the segments among which they are.
        trouble: what is damaged; "": nothing.
    """

    start_offset: int
    end_offset: int
    kind: str
    size_bytes: int
    segment_count: int
    trouble: str = ""


class Strip(NamedTuple):
    """A tiered log.

    Attributes:
        runs: all of its records.
        lag_bytes: the closed segments that are not copied.
        lag_segments: the number of these.
    """

    log_start_offset: int
    local_start_offset: int
    copied_to: int
    log_end_offset: int
    runs: tuple[Run, ...]
    lag_bytes: int
    lag_segments: int

    @property
    def uncopied_bytes(self) -> int:
        """Bytes that memory alone has."""
        return sum(run.size_bytes for run in self.runs if run.kind == LOCAL)


def strip_of(log: Log, remote: RemoteLog, damaged: Mapping[str, str], most_segments: int = NO_LIMIT) -> Strip:
    """Return the strip of a log.

    Args:
        damaged: what reads have found wrong, by the names of segments with their folders.
        most_segments: if more are to be looked at, since something has changed, what was found before is returned, from
            the log's start to its local start as these are now.
    """
    start, local_start, end = log.log_start_offset, log.local_start_offset, log.log_end_offset
    copied_to = min(max(log.copied_to, local_start), end)
    runs = [] if start >= local_start else list(_remote_runs(log, remote, damaged, most_segments))
    segment_count, (lag_bytes, lag_segments) = log.segment_count, log.copy_lag
    if copied_to > local_start:
        copied_count = segment_count - 1 - lag_segments
        runs.append(Run(local_start, copied_to, BOTH, log.size_between(local_start, copied_to), max(1, copied_count)))
    if end > copied_to:
        runs.append(Run(copied_to, end, LOCAL, log.size_between(copied_to, end), lag_segments + 1))
    return Strip(start, local_start, copied_to, end, tuple(runs), lag_bytes, lag_segments)


def _remote_runs(log: Log, remote: RemoteLog, damaged: Mapping[str, str], most_segments: int) -> tuple[Run, ...]:
    """Return the runs before the local start; they are found anew when they may have changed."""
    segments, start_offset, end_offset = remote.segments, log.log_start_offset, log.local_start_offset
    key = (segments, segments.changes, start_offset, end_offset, tuple(damaged))
    known = remote.runs
    if known is not None and known[0] == key:
        return known[1]
    if len(segments) > most_segments:
        return _moved(() if known is None else known[1], remote, start_offset, end_offset)
    runs = tuple(_joined(_pieces(log, remote, damaged)))
    remote.runs = (key, runs)
    return runs


def _moved(runs: Iterable[Run], remote: RemoteLog, start_offset: int, end_offset: int) -> tuple[Run, ...]:
    """Return runs as they were found before, or one of all segments, from one offset to another."""
    kept = [each for each in runs if each.end_offset > start_offset and each.start_offset < end_offset]
    if not kept:
        kept = [Run(start_offset, end_offset, REMOTE, remote.segments.size_bytes, len(remote.segments))]
    kept[0] = kept[0]._replace(start_offset=start_offset)
    kept[-1] = kept[-1]._replace(end_offset=end_offset)
    return tuple(kept)


def _pieces(log: Log, remote: RemoteLog, damaged: Mapping[str, str]) -> Iterator[Run]:
    """Yield what each segment has, and the gaps."""
    offset, end = log.log_start_offset, log.local_start_offset
    if remote.listed_in_epoch < 0 and not len(remote.segments):
        yield Run(offset, end, REMOTE, 0, 0, "it is not known yet what the tier has")
        return
    for segment in remote.segments:
        if segment.end_offset <= offset:
            continue
        if segment.start_offset >= end:
            break
        if segment.start_offset > offset:
            yield _gap(remote, offset, segment.start_offset)
        trouble = damaged.get(f"{remote.folder}{segment.name}", "") if damaged else ""
        start_offset, offset = max(offset, segment.start_offset), min(segment.end_offset, end)
        yield Run(start_offset, offset, DAMAGED if trouble else REMOTE, segment.size_bytes, 1, trouble)
    if offset < end:
        yield _gap(remote, offset, end)


def _gap(remote: RemoteLog, start_offset: int, end_offset: int) -> Run:
    why = [why for name, why in sorted(remote.damaged.items()) if start_offset <= name.start_offset < end_offset]
    return Run(start_offset, end_offset, DAMAGED, 0, 0, why[0] if why else "no segment in the tier has these records")


def _joined(pieces: Iterable[Run]) -> Iterator[Run]:
    """Yield neighbours of one kind as one run."""
    last: Run | None = None
    for each in pieces:
        if last is not None and (last.kind, last.trouble) == (each.kind, each.trouble):
            last = last._replace(
                end_offset=each.end_offset,
                size_bytes=last.size_bytes + each.size_bytes,
                segment_count=last.segment_count + each.segment_count,
            )
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last
