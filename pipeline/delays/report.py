"""The report: one HTML page without external resources, made from the gold tables."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from plotly.offline import get_plotlyjs

from purgatorio.pipeline.delays import figures, waits
from purgatorio.pipeline.delays.events import LAST_MS
from purgatorio.pipeline.delays.summary import Measures, Summary, summarize
from purgatorio.pipeline.delays.tables import Tables

MOST_CLIENTS: Final = 30
MOST_REASONS: Final = 20
LEAST_INTERVAL_SECONDS: Final = 15.0
"""The least time between two reports while the stream runs."""
LARGEST_SHARE: Final = 0.1
"""The largest share of the time that the job spends on reports."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report, with one plot.

    Attributes:
        caption: an explanation of the plot.
        nothing: the text if there is nothing to plot.
    """

    name: str
    title: str
    caption: str
    nothing: str
    plot: figures.Plot


SECTIONS: Final = (
    Section(
        "distributions",
        "How long each type of operation waited",
        "Each curve shows the distribution of a type's waits, with long waits on the right. "
        "Dotted lines mark the median (p50) and the wait that one in a hundred exceeded (p99).",
        "No operation has ended yet.",
        figures.distributions,
    ),
    Section(
        "percentiles",
        "Waits over time",
        "Rising lines are waits that became longer: half of the operations waited longer than p50, one in twenty "
        "longer than p95, one in a hundred longer than p99. The scale of waits is logarithmic.",
        "No operation has ended yet.",
        figures.percentiles,
    ),
    Section(
        "expiries",
        "Expired operations over time",
        "The height of a bar is the number of operations that reached their deadline before their condition held. An "
        "expired fetch found too little new data, which is no fault; an expired produce request was not replicated in "
        "time.",
        "No operation has expired.",
        figures.expiries,
    ),
    Section(
        "slowest",
        "Slowest partitions",
        f"The {figures.MOST_PLACES} partitions of each type whose slowest hundredth of operations waited longest; "
        "beside each bar stand its p99 and how many operations that is of. Fetches wait long where little is written.",
        "No operation has waited under a partition.",
        figures.slowest,
    ),
    Section(
        "holders",
        "Waits for each follower",
        "The darker a field, the longer the operations of a partition (across) waited in all for a broker (down): the "
        "broker whose fetch completed them, or which had not fetched when they expired.",
        "No operation has waited for another broker.",
        figures.holders,
    ),
    Section(
        "causes",
        "Causes that ended the waits",
        "Each row divides a type's operations by the event that ended them, or without one by their outcome.",
        "No operation has ended yet.",
        figures.causes,
    ),
)


class Reporter:
    """Writes the report repeatedly, at limited intervals.

    Args:
        source: a description of the topic and its cluster.
        clock: returns monotonic seconds.
        now: returns the time of day.
    """

    def __init__(
        self,
        tables: Tables,
        width_ms: int,
        source: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._tables = tables
        self._width_ms = width_ms
        self._source = source
        self._clock = clock
        self._now = now
        self._next = clock()

    def write_if_due(self) -> bool:
        """Write the report if the interval since the last one has passed; return whether it was written."""
        if self._clock() < self._next:
            return False
        self.write()
        return True

    def write(self) -> None:
        """Write the report."""
        began = self._clock()
        text = page(summarize(self._tables, self._width_ms), self._source, self._now(), self._tables.root)
        replace(self._tables.report, text)
        ended = self._clock()
        self._next = ended + max(LEAST_INTERVAL_SECONDS, (ended - began) / LARGEST_SHARE)


def replace(path: Path, text: str) -> None:
    """Replace a file atomically: a reader gets the old content or the new one."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def page(summary: Summary, source: str, now: datetime, root: Path) -> str:
    """Return the report's HTML.

    Args:
        source: a description of the topic and its cluster.
        root: the directory of the tables.
    """
    template = Template(
        resources.files("purgatorio.pipeline.delays").joinpath("report.html").read_text(encoding="utf-8")
    )
    sections = [_section(each, summary) for each in SECTIONS]
    return template.substitute(
        plotly=get_plotlyjs(),
        subtitle=_subtitle(summary, source, now),
        body="\n".join([_totals(summary), *sections, _clients(summary), _bad_records(summary, root)]),
        footer=f"Made from the tables in <code>{html.escape(str(root))}</code>. Percentiles are exact below 64 ms, and "
        "within 1.6 % above; an operation on several partitions counts once, and for each of them where partitions are "
        "told apart.",
    )


def _subtitle(summary: Summary, source: str, now: datetime) -> str:
    parts = [html.escape(source)]
    if summary.types:
        parts.append(f"{_minute(summary.start_ms)} to {_minute(summary.end_ms)} UTC")
    return " · ".join([*parts, f"written {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"])


def _totals(summary: Summary) -> str:
    total = summary.total
    bad = sum(summary.bad.values())
    told = [("operations", f"{total.count:,}", "")]
    if total.count:
        told += [
            ("time span", waits.duration(summary.end_ms - summary.start_ms), ""),
            ("expired", _share(total.expiry_rate), ""),
            ("median wait", waits.duration(total.percentile(0.5)), ""),
            ("p99 wait", waits.duration(total.percentile(0.99)), ""),
        ]
    told.append(("bad records", f"{bad:,}", "bad" if bad else ""))
    cells = (f'<div class="{kind}"><dt>{name}</dt><dd>{value}</dd></div>' for name, value, kind in told)
    return f'<dl class="totals">{"".join(cells)}</dl>'


def _section(section: Section, summary: Summary) -> str:
    figure = section.plot(summary)
    if figure is None:
        shown = f'<p class="nothing">{section.nothing}</p>'
    else:
        # Within a script element, only "<" could end the element.
        data = figure.to_json().replace("<", "\\u003c").replace(">", "\\u003e")
        shown = (
            f'<div class="plot" id="{section.name}"><div></div><script type="application/json">{data}</script></div>'
        )
    caption = "" if figure is None else f"<p>{section.caption}</p>"
    return f"<section><h2>{section.title}</h2>{caption}{shown}</section>"


def _clients(summary: Summary) -> str:
    ranked = sorted(summary.clients.items(), key=lambda each: (-each[1].count, each[0]))
    shown = ranked[:MOST_CLIENTS]
    if not shown:
        return ""
    head = ("client", "type", "operations", "expired", "p50", "p99", "longest", "checks per operation")
    colours = figures.colours(summary.types)
    rows = [_client_row(client, kind, group, colours[kind]) for (client, kind), group in shown]
    left_out = len(ranked) - len(shown)
    which = f"The {len(shown)} with the most operations; {left_out:,} more are in the table." if left_out else ""
    return (
        "<section><h2>Clients</h2><p>The number and length of waits of each client's requests. Many checks per "
        f"operation mean that its condition was approached in small steps. {which}</p>"
        f"{_table(head, rows, first_number=2)}"
        "</section>"
    )


def _client_row(client: str, kind: str, group: Measures, colour: str) -> list[str]:
    name = html.escape(client) if client else '<span class="quiet">(none)</span>'
    return [
        name,
        f'<span class="dot" style="background:{colour}"></span>{html.escape(kind)}',
        f"{group.count:,}",
        _share(group.expiry_rate),
        waits.duration(group.percentile(0.5)),
        waits.duration(group.percentile(0.99)),
        waits.duration(group.longest_ms),
        f"{group.checks / group.count:,.1f}",
    ]


def _bad_records(summary: Summary, root: Path) -> str:
    if not summary.bad:
        return ""
    rows = [[html.escape(reason), f"{count:,}"] for reason, count in list(summary.bad.items())[:MOST_REASONS]]
    return (
        "<section><h2>Bad records</h2><p>Records of the topic that are no events of this schema. They are kept, with "
        f"the offset and the value of each, in <code>{html.escape(str(root / 'bad_records'))}</code>.</p>"
        f"{_table(('reason', 'records'), rows, first_number=1)}</section>"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, first_number: int) -> str:
    """Return an HTML table; columns from `first_number` on hold numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if nth < first_number else ' class="number"' for nth in range(len(row))]
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _share(rate: float) -> str:
    percent = 100 * rate
    return f"{percent:.1f} %" if percent >= 0.1 or not percent else f"{percent:.1g} %"


def _minute(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(min(at_ms, LAST_MS) / 1000, UTC):%Y-%m-%d %H:%M}"
