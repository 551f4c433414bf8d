"""The report's plots, made from a summary; a function returns None if there is nothing to plot.

The page sets the colours of text, grids and backgrounds, since it may be light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from math import log10
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from purgatorio.pipeline.delays import waits
from purgatorio.pipeline.delays.kinds import COLOURS
from purgatorio.pipeline.delays.summary import Held, Holding, Measures, PartitionWaits, Summary

MOST_PLACES: Final = 15
MOST_HELD: Final = 40
MOST_CAUSES: Final = 9

_OTHERS: Final = ("#7f8f2f", "#5c8a99", "#777f8c")
_CAUSES: Final = (
    *("#3f7fd9", "#e0862b", "#2a9d8f", "#d1497a", "#8d63d2"),
    *("#c9a227", "#5c8a99", "#b0724f", "#7f8f2f", "#9aa1ac"),
)
_HEAT: Final = ((0.0, "rgba(63,127,217,0.04)"), (0.5, "rgba(63,127,217,0.55)"), (1.0, "rgba(38,84,158,1)"))
_NEUTRAL: Final = "#8a93a0"
_LEAST_MS: Final = 0.3
"""The position of a wait of 0 on a logarithmic scale; the bin of such waits reaches from here to 1 ms."""
_ZERO_MS: Final = _LEAST_MS**0.5
"""The middle of that bin."""

Colours = Mapping[str, str]
Plot = Callable[[Summary], go.Figure | None]


def colours(types: Iterable[str]) -> Colours:
    """Return a colour for each operation type, the same in every plot and every report."""
    unknown = sorted(set(types) - set(COLOURS))
    return COLOURS | {kind: _OTHERS[nth % len(_OTHERS)] for nth, kind in enumerate(unknown)}


def distributions(summary: Summary) -> go.Figure | None:
    """Plot the distribution of waits, in a row for each type."""
    if not summary.types:
        return None
    titles = [f"<b>{_text(kind)}</b>  {_operations(group.count)}" for kind, group in summary.types.items()]
    figure = _rows(titles, height=150)
    for row, (kind, group) in enumerate(summary.types.items(), 1):
        colour = colours(summary.types)[kind]
        bounds = waits.edges(group.waits)
        shares = waits.shares(group.waits, bounds)
        spans = [_bin_name(low, high) for low, high in pairwise(bounds)]
        figure.add_scatter(
            x=[max(_LEAST_MS, bound) for bound in bounds],
            y=[*shares, 0.0],
            customdata=[*spans, spans[-1]],
            name=kind,
            mode="lines",
            line={"color": colour, "shape": "hv", "width": 1.5},
            fill="tozeroy",
            fillcolor=_faded(colour, 0.35),
            hovertemplate="%{customdata}: %{y:.1f} % of operations<extra>" + _text(kind) + "</extra>",
            row=row,
            col=1,
        )
        _mark_percentiles(figure, row, group)
        figure.update_yaxes(title_text="share, %", range=[0, 1.25 * max(shares)], row=row, col=1)
    longest = max(max(group.waits) for group in summary.types.values())
    figure.update_xaxes(**_log_scale(longest))
    figure.update_xaxes(title_text="wait, logarithmic", row=len(titles), col=1)
    return figure


def percentiles(summary: Summary) -> go.Figure | None:
    """Plot p50, p95 and p99 of waits over time, in a row for each type."""
    if not summary.types:
        return None
    figure = _rows([f"<b>{_text(kind)}</b>" for kind in summary.types], height=170)
    longest = 1.0
    for row, kind in enumerate(summary.types, 1):
        colour = colours(summary.types)[kind]
        times = _times(summary, kind)
        for name, share, style in (("p99", 0.99, "dot"), ("p95", 0.95, "dash"), ("p50", 0.5, "solid")):
            values = [None if group is None else group.percentile(share) for _, group in times]
            longest = max(longest, *(each for each in values if each is not None))
            figure.add_scatter(
                x=[_date(at) for at, _ in times],
                y=[None if each is None else max(_LEAST_MS, each) for each in values],
                customdata=[None if each is None else waits.duration(each) for each in values],
                name=name,
                mode="lines+markers",
                line={"color": colour, "dash": style, "width": 2.2 if share == 0.5 else 1.4},
                marker={"size": 4},
                showlegend=False,
                hovertemplate="%{customdata}<extra>" + name + "</extra>",
                row=row,
                col=1,
            )
        figure.update_yaxes(**_log_scale(longest, upright=True), title_text="wait", row=row, col=1)
    for name, style in (("p50", "solid"), ("p95", "dash"), ("p99", "dot")):
        key = {"color": _NEUTRAL, "dash": style}
        figure.add_scatter(x=[None], y=[None], name=name, mode="lines", line=key, row=1, col=1)
    figure.update_xaxes(title_text="time, UTC", row=len(summary.types), col=1)
    return figure.update_layout(hovermode="x unified", showlegend=True, legend=_LEGEND_ABOVE)


def expiries(summary: Summary) -> go.Figure | None:
    """Plot the number of expired operations over time, by type."""
    if not summary.total.expired:
        return None
    figure = _plain(height=300)
    for kind, group in summary.types.items():
        if not group.expired:
            continue
        times = [(at, each) for at, each in _times(summary, kind) if each is not None]
        figure.add_bar(
            x=[_date(at + summary.bin_ms // 2) for at, _ in times],
            y=[each.expired for _, each in times],
            width=summary.bin_ms,
            customdata=[[each.count, f"{each.expiry_rate:.1%}"] for _, each in times],
            name=kind,
            marker={"color": colours(summary.types)[kind], "line": {"width": 0}},
            hovertemplate="%{y:,} of %{customdata[0]:,} expired (%{customdata[1]})<extra>" + _text(kind) + "</extra>",
        )
    figure.update_yaxes(title_text=f"expired in {waits.duration(summary.bin_ms)}", rangemode="tozero")
    figure.update_xaxes(title_text="time, UTC", type="date", range=[_date(summary.start_ms), _date(summary.end_ms)])
    return figure.update_layout(barmode="stack", hovermode="x unified", showlegend=True, legend=_LEGEND_ABOVE)


def slowest(summary: Summary) -> go.Figure | None:
    """Plot the partitions with the highest p99, for each type."""
    kinds = [kind for kind in summary.types if any(place.kind == kind for place in summary.places)]
    if not kinds:
        return None
    top = {kind: _slowest_of(summary, kind) for kind in kinds}
    longest = max(map(len, top.values()))
    across = len(kinds) if len(kinds) <= 3 else 2
    down = -(-len(kinds) // across)
    figure = make_subplots(
        rows=down,
        cols=across,
        subplot_titles=[f"<b>{_text(kind)}</b>" for kind in kinds],
        horizontal_spacing=0.13,
        vertical_spacing=0.28 / down,
    )
    for nth, (kind, places) in enumerate(top.items()):
        cell = {"row": nth // across + 1, "col": nth % across + 1}
        p99 = [group.percentile(0.99) for _, group in places]
        details = [
            [f"{group.count:,}", waits.duration(group.percentile(0.5)), waits.duration(each),
             waits.duration(group.longest_ms), f"{group.expired:,}"]
            for (_, group), each in zip(places, p99, strict=True)
        ]  # fmt: skip
        figure.add_bar(
            x=p99,
            y=[_place(place.topic, place.partition) for place, _ in places],
            customdata=details,
            text=[f"{each[2]} · {each[0]}" for each in details],
            textposition="auto",
            insidetextanchor="start",
            orientation="h",
            name=kind,
            marker={"color": colours(summary.types)[kind], "line": {"width": 0}},
            hovertemplate="<b>%{y}</b><br>%{customdata[0]} operations, %{customdata[4]} expired<br>"
            "p50 %{customdata[1]}, p99 %{customdata[2]}, longest %{customdata[3]}<extra></extra>",
            **cell,
        )
        figure.update_xaxes(title_text="p99 wait, ms", rangemode="tozero", **cell)
    figure.update_yaxes(autorange="reversed", type="category", automargin=True)
    return _finish(figure, height=60 + down * (90 + 25 * longest))


def holders(summary: Summary) -> go.Figure | None:
    """Plot the total wait of each partition's operations for each broker, as a heat map."""
    if not summary.holders:
        return None
    by_place: dict[tuple[str, int], float] = {}
    for held, holding in summary.holders.items():
        place = held.topic, held.partition
        by_place[place] = by_place.get(place, 0.0) + holding.total_ms
    shown = sorted(sorted(by_place, key=lambda place: -by_place[place])[:MOST_HELD])
    brokers = sorted({held.held_by for held in summary.holders})
    cells = [[summary.holders.get(Held(broker, *place)) for place in shown] for broker in brokers]
    figure = _plain(height=150 + 42 * len(brokers))
    figure.add_heatmap(
        x=[_place(*place) for place in shown],
        y=[f"broker {broker}" for broker in brokers],
        z=[[None if cell is None else cell.total_ms / 1000 for cell in row] for row in cells],
        text=[["" if cell is None else waits.duration(cell.total_ms) for cell in row] for row in cells],
        texttemplate="%{text}" if len(shown) <= 14 else None,
        customdata=[[_held_words(cell) for cell in row] for row in cells],
        colorscale=_HEAT,
        zmin=0,
        zmax=max(holding.total_ms for holding in summary.holders.values()) / 1000 or 1,
        xgap=2,
        ygap=2,
        hoverongaps=False,
        colorbar={"title": {"text": "total wait, s", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        hovertemplate="<b>%{y}</b> held <b>%{x}</b><br>%{customdata}<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False, automargin=True)
    figure.update_xaxes(type="category", tickangle=0 if len(shown) <= 10 else -45, automargin=True, showgrid=False)
    return figure


def causes(summary: Summary) -> go.Figure | None:
    """Plot the causes that ended the waits, as shares of each type."""
    if not summary.types:
        return None
    totals: dict[str, int] = {}
    for group in summary.types.values():
        for cause, count in group.causes.items():
            totals[cause] = totals.get(cause, 0) + count
    ranked = sorted(totals, key=lambda cause: (-totals[cause], cause))
    named, rest = ranked[:MOST_CAUSES], ranked[MOST_CAUSES:]
    kinds = list(summary.types)
    figure = _plain(height=110 + 44 * len(kinds))
    for nth, cause in enumerate([*named, "others"] if rest else named):
        members = rest if nth == len(named) else [cause]
        counts = [sum(summary.types[kind].causes.get(each, 0) for each in members) for kind in kinds]
        shares = [100 * count / summary.types[kind].count for kind, count in zip(kinds, counts, strict=True)]
        figure.add_bar(
            x=shares,
            y=[_text(kind) for kind in kinds],
            customdata=[f"{count:,}" for count in counts],
            text=[f"{share:.0f} %" if share >= 6 else "" for share in shares],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            orientation="h",
            name=_text(cause),
            marker={"color": _CAUSES[nth], "line": {"width": 0}},
            hovertemplate="%{x:.1f} %, %{customdata} operations<extra>" + _text(cause) + "</extra>",
        )
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False, automargin=True)
    figure.update_xaxes(title_text="share of operations, %", range=[0, 100])
    return figure.update_layout(barmode="stack", showlegend=True, legend=_LEGEND_ABOVE)


_LEGEND_ABOVE: Final = {
    "orientation": "h",
    "traceorder": "normal",
    "x": 1,
    "xanchor": "right",
    "y": 1.0,
    "yanchor": "bottom",
}


def _plain(height: int) -> go.Figure:
    return _finish(go.Figure(), height)


def _rows(titles: list[str], height: int) -> go.Figure:
    """Return a figure of plots below each other with a common horizontal axis."""
    gap = min(0.09, 0.3 / len(titles))
    figure = make_subplots(rows=len(titles), cols=1, shared_xaxes=True, vertical_spacing=gap, subplot_titles=titles)
    figure.update_annotations(x=0, xanchor="left")
    return _finish(figure, height=110 + height * len(titles))


def _finish(figure: go.Figure, height: int) -> go.Figure:
    return figure.update_layout(
        template=go.layout.Template(),
        height=height,
        margin={"l": 70, "r": 24, "t": 44, "b": 56},
        showlegend=False,
        bargap=0.25,
        hoverlabel={"namelength": -1},
    )


def _log_scale(longest_ms: float, *, upright: bool = False) -> dict[str, Any]:
    """Return a logarithmic axis from 0 to the longest wait, with durations as tick labels."""
    powers = [10**power for power in range(max(1, len(str(int(longest_ms)))) + 1)]
    top = max(longest_ms, 1) * (1.6 if upright else 1.25)
    low = _LEAST_MS * (0.8 if upright else 1)
    return {
        "type": "log",
        "tickvals": [_LEAST_MS if upright else _ZERO_MS, *powers],
        "ticktext": ["0", *(waits.duration(each) for each in powers)],
        "range": [log10(low), log10(top)],
    }


def _mark_percentiles(figure: go.Figure, row: int, group: Measures) -> None:
    """Draw lines at p50 and p99, with labels on different sides, so that labels of close lines do not overlap."""
    line = {"width": 1, "dash": "dot", "color": _NEUTRAL}
    for name, share, anchor in (("p50", 0.5, "right"), ("p99", 0.99, "left")):
        at = group.percentile(share)
        x = at if at >= 1 else _ZERO_MS
        figure.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="y domain", line=line, row=row, col=1)
        # Plotly places shapes by the value, but annotations by its logarithm.
        figure.add_annotation(
            x=log10(x),
            y=1,
            yref="y domain",
            text=f"{name} {waits.duration(at)}",
            font={"size": 11},
            showarrow=False,
            xanchor=anchor,
            yanchor="top",
            row=row,
            col=1,
        )


def _times(summary: Summary, kind: str) -> list[tuple[int, Measures | None]]:
    """Return a type's groups in order of time, with one None in each gap, so that lines have gaps, too."""
    starts = sorted(at for each, at in summary.moments if each == kind)
    found: list[tuple[int, Measures | None]] = []
    for at in starts:
        if found and at - found[-1][0] > summary.bin_ms:
            found.append((found[-1][0] + summary.bin_ms, None))
        found.append((at, summary.moments[kind, at]))
    return found


def _slowest_of(summary: Summary, kind: str) -> list[tuple[PartitionWaits, Measures]]:
    places = [(place, group) for place, group in summary.places.items() if place.kind == kind]
    places.sort(key=lambda each: (-each[1].percentile(0.99), -each[1].count, each[0]))
    return places[:MOST_PLACES]


def _held_words(holding: Holding | None) -> str:
    if holding is None:
        return ""
    expired = f", {holding.expired:,} expired" if holding.expired else ""
    mean = waits.duration(holding.total_ms / holding.count)
    return f"{_operations(holding.count)}{expired}<br>{waits.duration(holding.total_ms)} in all, {mean} each"


def _operations(count: int) -> str:
    return f"{count:,} operation" + ("" if count == 1 else "s")


def _bin_name(low: int, high: int) -> str:
    return f"{low} ms" if high == low + 1 else f"{waits.duration(low)} to {waits.duration(high)}"


def _place(topic: str, partition: int) -> str:
    return f"{_text(topic)}-{partition}"


def _text(name: str) -> str:
    """Escape a name for plotly, which interprets some HTML, and cut a long one."""
    return html.escape(name if len(name) <= 40 else f"{name[:39]}…", quote=False)


def _date(at_ms: int) -> str:
    """Return a time in plotly's format."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"


def _faded(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
