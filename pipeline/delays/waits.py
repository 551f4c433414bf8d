"""Histograms of waits (see `aggregates`): percentiles, bins for plots, and durations as text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

Waits = Mapping[int, int]
"""A histogram of waits: the count of each bucket, by the bucket's least wait in ms."""

_DECADE: Final = (10, 13, 16, 20, 25, 32, 40, 50, 63, 80)
"""Bins above 10 ms: ten for each factor of ten, rounded to whole milliseconds."""
_SMALL: Final = (0, 1, 2, 3, 4, 5, 6, 8)


def bucket_width(least_ms: int) -> int:
    """Return the width of a bucket, in milliseconds."""
    return 1 << max(0, least_ms.bit_length() - 6)


def percentile(waits: Waits, share: float) -> float:
    """Return a percentile, as the middle of a bucket: exact below 64 ms and within 1.6 % above.

    Args:
        waits: a histogram with at least one wait.
        share: from 0 to 1.

    Returns:
        Milliseconds.
    """
    rank, before = share * (sum(waits.values()) - 1), 0
    for least_ms in sorted(waits):
        before += waits[least_ms]
        if before > rank:
            return least_ms + (bucket_width(least_ms) - 1) / 2
    raise ValueError("there are no waits")


def edges(waits: Waits) -> list[int]:
    """Return the bounds of bins that hold all waits, and are about equally wide on a logarithmic scale."""
    last = max(waits)
    longest_ms = last + bucket_width(last) - 1
    bounds = list(_SMALL)
    factor = 1
    while bounds[-1] <= longest_ms:
        bounds += [factor * each for each in _DECADE]
        factor *= 10
    return bounds[: bisect_right(bounds, longest_ms) + 1]


def shares(waits: Waits, bounds: Sequence[int]) -> list[float]:
    """Return the share of all waits in each bin, in percent; a bucket across a bound is divided."""
    total = sum(waits.values())
    counted = [0.0] * (len(bounds) - 1)
    for least_ms, count in waits.items():
        end_ms = least_ms + bucket_width(least_ms)
        nth = bisect_right(bounds, least_ms) - 1
        while nth < len(counted) and bounds[nth] < end_ms:
            inside = min(end_ms, bounds[nth + 1]) - max(least_ms, bounds[nth])
            counted[nth] += count * inside / (end_ms - least_ms)
            nth += 1
    return [100 * each / total for each in counted]


def duration(milliseconds: float) -> str:
    """Return a duration as text, such as ``3 ms``, ``1.25 s``, ``2 min 5 s``, ``3 h 10 min`` or ``5 d 2 h``."""
    if milliseconds < 999.5:
        return f"{milliseconds:.3g} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (large, size), (small, part) in pairwise(units):
        whole = round(seconds / part) * part
        if whole >= size or large == "min":
            rest = whole % size // part
            return f"{whole // size} {large}" + (f" {rest} {small}" if rest else "")
    raise AssertionError("durations below an hour are in minutes")
