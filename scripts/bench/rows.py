"""The rows that every benchmark returns, for one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        name: what was measured.
        measured: the figure, with its unit; a ratio wherever there is something to compare with in the same run.
        bar: what it should be, or empty.
        met: whether it is; None where there is no bar.
    """

    name: str
    measured: str
    bar: str = ""
    met: bool | None = None


def at_most(name: str, value: float, bar: float, unit: str, detail: str = "") -> Row:
    """A row whose figure should not be above the bar."""
    return Row(name, f"{value:.3g}{unit}{detail}", f"≤ {bar:g}{unit}", value <= bar)


def at_least(name: str, value: float, bar: float, unit: str, detail: str = "") -> Row:
    """A row whose figure should not be below the bar."""
    return Row(name, f"{value:.3g}{unit}{detail}", f"≥ {bar:g}{unit}", value >= bar)


def table(rows: Iterable[Row]) -> str:
    """The rows as Markdown."""
    marks = {True: "yes", False: "**no**", None: ""}
    lines = ["| what | measured | bar | met |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.measured} | {row.bar} | {marks[row.met]} |" for row in rows]
    return "\n".join(lines)


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
