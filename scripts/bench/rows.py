"""The rows that every benchmark returns, for one table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

MET: Final = "yes"
MISSED: Final = "**no**"
HIDDEN: Final = "hidden by noise"
"""Half of the rounds, around the median, are on both sides of the bar: the machine was too busy to tell."""


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        name: what was measured.
        measured: the figure, with its unit; a ratio wherever there is something to compare with in the same run.
        bar: what it should be, or empty.
        verdict: whether it is: `MET`, `MISSED`, `HIDDEN`, or empty where there is no bar.
    """

    name: str
    measured: str
    bar: str = ""
    verdict: str = ""


def at_most(name: str, value: float, bar: float, unit: str, detail: str = "") -> Row:
    """A row whose figure should not be above the bar."""
    return Row(name, f"{value:.3g}{unit}{detail}", f"≤ {bar:g}{unit}", MET if value <= bar else MISSED)


def at_least(name: str, value: float, bar: float, unit: str, detail: str = "") -> Row:
    """A row whose figure should not be below the bar."""
    return Row(name, f"{value:.3g}{unit}{detail}", f"≥ {bar:g}{unit}", MET if value >= bar else MISSED)


def rounds_at_most(name: str, values: Sequence[float], bar: float, unit: str, detail: str = "") -> Row:
    """A row of several rounds, whose median should not be above the bar."""
    return _judged(at_most(name, statistics.median(values), bar, unit, _spread(values) + detail), values, bar)


def rounds_at_least(name: str, values: Sequence[float], bar: float, unit: str, detail: str = "") -> Row:
    """A row of several rounds, whose median should not be below the bar."""
    return _judged(at_least(name, statistics.median(values), bar, unit, _spread(values) + detail), values, bar)


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        return ""
    low, high = _quartiles(values)
    return f" ({low:.3g} to {high:.3g} in half of {len(values)} rounds)"


def _judged(row: Row, values: Sequence[float], bar: float) -> Row:
    low, high = _quartiles(values)
    return Row(row.name, row.measured, row.bar, HIDDEN) if low < bar < high else row


def table(rows: Iterable[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| what | measured | bar | met |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.measured} | {row.bar} | {row.verdict} |" for row in rows]
    return "\n".join(lines)


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
