"""The report shows the gold tables. The oracle writes the tables here, so no Spark is needed."""

from __future__ import annotations

import html.parser
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="install purgatorio[spark]")
pytest.importorskip("plotly", reason="install purgatorio[spark]")

from pyarrow import parquet  # type: ignore[import-untyped] # noqa: E402

from purgatorio.pipeline.delays import aggregates, figures, waits  # noqa: E402
from purgatorio.pipeline.delays.report import SECTIONS, Reporter, page, replace  # noqa: E402
from purgatorio.pipeline.delays.summary import bin_width, start_of, summarize  # noqa: E402
from purgatorio.pipeline.delays.tables import Tables  # noqa: E402
from tests.pipeline.delays import oracle, samples  # noqa: E402

WIDTH_MS = 10_000
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_COUNTS = pa.map_(pa.string(), pa.int64())
_TYPES = {"topic": pa.string(), "partition": pa.int64(), "held_by": pa.int64(), "checks": pa.float64()}
_TYPES |= {"waits": pa.map_(pa.int64(), pa.int64()), "causes": _COUNTS, "outcomes": _COUNTS}

Events = Sequence[dict[str, Any]]


def write_gold(root: Path, events: Events, bad: Sequence[str] = ()) -> Tables:
    """Tables as the job writes them."""
    gold = [
        ("windows", oracle.windows(events, WIDTH_MS), aggregates.WINDOW_KEYS),
        ("operations", oracle.operations(events, WIDTH_MS), aggregates.OPERATION_KEYS),
        ("holders", oracle.holders(events, WIDTH_MS), aggregates.HOLDER_KEYS),
    ]
    for table, rows, keys in gold:
        for start in {key[0] for key in rows}:
            members = [
                dict(zip(keys[2:], key[1:], strict=True)) | _plain(row) for key, row in rows.items() if key[0] == start
            ]
            columns = {name: pa.array([member[name] for member in members], _TYPES.get(name)) for name in members[0]}
            _write(root / table / f"window={start:%Y-%m-%dT%H%M%SZ}", columns)
    if bad:
        _write(root / "bad_records" / "batch=0", {"reason": pa.array(bad)})
    return Tables(root)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in row.items()}


def _write(directory: Path, columns: dict[str, Any]) -> None:
    directory.mkdir(parents=True)
    parquet.write_table(pa.table(columns), directory / "part-0.parquet")


class Page(html.parser.HTMLParser):
    """The plots' data by name, the text outside of scripts, and the references to external resources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.plots: dict[str, Any] = {}
        self.words: list[str] = []
        self.loaded: list[str] = []
        self._plot = ""
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        given = dict(attrs)
        self.loaded += [value for name in ("src", "href") if (value := given.get(name))]
        if given.get("class") == "plot":
            self._plot = given["id"] or ""
        if tag == "script" and given.get("type") == "application/json":
            self._tag = "data"

    def handle_data(self, data: str) -> None:
        if self._tag == "data":
            self.plots[self._plot] = json.loads(data)
        elif self._tag not in ("script", "style"):
            self.words.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    @property
    def text(self) -> str:
        return " ".join(word for word in self.words if word)

    def traces(self, plot: str, **having: Any) -> list[dict[str, Any]]:
        return [
            each for each in self.plots[plot]["data"] if all(each.get(name) == value for name, value in having.items())
        ]


def report(tables: Tables) -> Page:
    return Page(page(summarize(tables, WIDTH_MS), "Topic t at b:1", NOW, tables.root))


@pytest.fixture(scope="module")
def events() -> Events:
    return list(samples.busy(11, 3000, 120_000))


@pytest.fixture(scope="module")
def shown(events: Events, tmp_path_factory: pytest.TempPathFactory) -> Page:
    reasons = ["the value is not JSON"] * 3 + ["version is not 1"]
    return report(write_gold(tmp_path_factory.mktemp("delays"), events, reasons))


def of_kind(events: Events, kind: str) -> Events:
    return [each for each in events if each["kind"] == kind]


def of(events: Events, kind: str) -> list[int]:
    return sorted(each["done_ms"] - each["parked_ms"] for each in of_kind(events, kind))


def test_the_totals_count_every_operation_once(shown: Page, events: Events) -> None:
    expired = sum(each["outcome"] == "expired" for each in events) / len(events)
    median = oracle.percentile(sorted(each["done_ms"] - each["parked_ms"] for each in events), 0.5)
    assert "operations 3,000 time span" in shown.text
    assert f"expired {100 * expired:.1f} %" in shown.text
    assert f"median wait {waits.duration(int(median))}" in shown.text
    assert "bad records 4" in shown.text
    assert "the value is not JSON 3 version is not 1 1" in shown.text


def test_the_page_loads_nothing_from_elsewhere_and_has_every_plot(shown: Page) -> None:
    assert shown.loaded == []
    assert list(shown.plots) == [section.name for section in SECTIONS]
    for section in SECTIONS:
        assert section.title in shown.text
        assert section.caption in shown.text


def test_distributions_are_shares_of_each_type(shown: Page, events: Events) -> None:
    for kind in ("produce", "consumer fetch", "follower fetch", "delete records", "topic"):
        (trace,) = shown.traces("distributions", name=kind)
        found = of(events, kind)
        assert sum(trace["y"]) == pytest.approx(100)
        below_10_ms = sum(share for at, share in zip(trace["x"], trace["y"], strict=True) if at < 10)
        assert below_10_ms == pytest.approx(100 * sum(wait < 10 for wait in found) / len(found))


def test_percentiles_over_time_are_those_of_each_moment(shown: Page, events: Events) -> None:
    at = samples.START_MS + 60_000
    here = [each for each in events if at <= each["done_ms"] < at + 10_000]
    expected = oracle.percentile(of(here, "produce"), 0.5)
    trace = shown.traces("percentiles", name="p50", mode="lines+markers")[0]
    nth = trace["x"].index("2026-01-01 00:01:00.000")
    assert trace["y"][nth] == pytest.approx(expected, abs=1)


def test_expiries_are_counted_by_type_and_time(shown: Page, events: Events) -> None:
    for kind in ("produce", "consumer fetch"):
        (trace,) = shown.traces("expiries", name=kind)
        mine = [each for each in of_kind(events, kind) if each["outcome"] == "expired"]
        assert sum(trace["y"]) == len(mine)
        first = sum(each["done_ms"] // WIDTH_MS == samples.START_MS // WIDTH_MS for each in mine)
        assert trace["y"][trace["x"].index("2026-01-01 00:00:05.000")] == first


def test_the_slowest_partitions_come_first_with_their_counts(shown: Page, events: Events) -> None:
    (trace,) = shown.traces("slowest", name="consumer fetch")
    assert trace["x"] == sorted(trace["x"], reverse=True)
    counts = Counter(
        f"{where['topic']}-{where['partition']}"
        for each in of_kind(events, "consumer fetch")
        for where in each["partitions"]
    )
    assert {name: f"{counts[name]:,}" for name in trace["y"]} == {
        name: details[0] for name, details in zip(trace["y"], trace["customdata"], strict=True)
    }
    assert len(trace["y"]) == min(figures.MOST_PLACES, len(counts))


def test_the_heat_map_shows_the_wait_of_each_partition_for_each_broker(shown: Page, events: Events) -> None:
    (trace,) = shown.traces("holders")
    held = sum(
        each["done_ms"] - each["parked_ms"]
        for each in events
        if 2 in each["held_by"] and {"topic": "orders", "partition": 1} in each["partitions"]
    )
    assert trace["z"][trace["y"].index("broker 2")][trace["x"].index("orders-1")] == pytest.approx(held / 1000)


def test_causes_are_shares_of_each_type(shown: Page, events: Events) -> None:
    (trace,) = shown.traces("causes", name="append")
    fetches = of_kind(events, "consumer fetch")
    share = sum(each["cause"] == "append" for each in fetches) / len(fetches)
    assert trace["x"][trace["y"].index("consumer fetch")] == pytest.approx(100 * share)
    for row in range(5):
        assert sum(each["x"][row] for each in shown.traces("causes")) == pytest.approx(100)


def test_clients_are_listed_with_their_figures(shown: Page, events: Events) -> None:
    mine = [each for each in events if each["client"] == "rdkafka"]
    expired = 100 * sum(each["outcome"] == "expired" for each in mine) / len(mine)
    checks = sum(each["checks"] for each in mine) / len(mine)
    told = shown.text[shown.text.index("rdkafka consumer fetch") :].split()[:15]
    assert told[3:5] == [f"{len(mine):,}", f"{expired:.1f}"]
    assert f"{checks:.1f}" in told


def test_a_section_without_data_has_a_text_instead_of_a_plot(tmp_path: Path) -> None:
    calm = [samples.event(1, held_by=[], partitions=[], purgatory="topic", kind="topic", other_keys=["topics"])]
    shown = report(write_gold(tmp_path / "calm", calm))
    assert "No operation has expired." in shown.text
    assert "No operation has waited for another broker." in shown.text
    assert "No operation has waited under a partition." in shown.text
    assert sorted(shown.plots) == ["causes", "distributions", "percentiles"]
    empty = report(Tables(tmp_path / "empty"))
    assert empty.plots == {}
    assert "operations 0 bad records 0" in empty.text
    assert "No operation has ended yet." in empty.text


def test_names_that_look_like_html_are_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><b>"
    events = [samples.event(1, client=evil, cause=evil, purgatory=evil, kind=evil, outcome="expired")]
    text = page(summarize(write_gold(tmp_path, events, [evil]), WIDTH_MS), evil, NOW, tmp_path)
    shown = Page(text)
    assert shown.text.count(evil) == 4
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in shown.traces("causes")[0]["name"]


def test_a_gap_in_time_is_a_gap_in_the_lines(tmp_path: Path) -> None:
    later = samples.START_MS + 100_000
    events = [samples.event(1), samples.event(2, parked_ms=later, done_ms=later + 3)]
    trace = report(write_gold(tmp_path, events)).traces("percentiles", name="p50", mode="lines+markers")[0]
    assert trace["y"] == [3, None, 3]


def test_many_windows_are_merged() -> None:
    assert bin_width(60_000, 10_000) == 10_000
    assert bin_width(86_400_000, 10_000) == 600_000
    assert bin_width(3_600_000, 7_000) == 21_000
    assert start_of("2026-01-01T000000Z") == samples.START_MS


def test_reports_are_written_at_limited_intervals_and_atomically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a report that took 4 s, the next one is written after 40 s."""
    seconds = [100.0]
    tables = write_gold(tmp_path, [samples.event()])
    reporter = Reporter(tables, WIDTH_MS, "Topic t", lambda: seconds[0], lambda: NOW)
    assert reporter.write_if_due()
    assert not reporter.write_if_due()
    seconds[0] += 14.9
    assert not reporter.write_if_due()
    seconds[0] += 0.2

    def slow(*args: Any) -> Any:
        seconds[0] += 4
        return summarize(*args)

    monkeypatch.setattr("purgatorio.pipeline.delays.report.summarize", slow)
    assert reporter.write_if_due()
    seconds[0] += 39
    assert not reporter.write_if_due()
    seconds[0] += 2
    assert reporter.write_if_due()
    assert tables.report.read_text(encoding="utf-8").endswith("</html>\n")
    assert not list(tmp_path.glob(".report*"))


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    replace(path, "old")

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        replace(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
