"""Metrics that many ask for at the same time are made once for all that wait."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from purgatorio.admin.web.scrapes import Format, SharedScrapes, format_of, joined_metrics


class Making:
    """Makes texts when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.ends: list[asyncio.Future[None]] = []

    async def text(self, wanted: Format) -> bytes:
        self.begun += 1
        number = self.begun
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        await end
        return wanted.encode(number)


PLAIN = Format(lambda number: b"plain %d" % number, "text/plain")
OTHER = Format(lambda number: b"other %d" % number, "application/openmetrics-text")


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_hundred_scrapes_are_made_twice_and_never_together() -> None:
    """The first one for whom it was begun, the second one for all that came since."""
    making = Making()
    scrapes = SharedScrapes(making.text)
    asked = [asyncio.create_task(scrapes.answer(PLAIN)) for _ in range(100)]
    await turns()
    late = asyncio.create_task(scrapes.answer(PLAIN))
    for nth in range(2):
        assert making.begun == nth + 1
        making.ends[nth].set_result(None)
        for _ in range(10):
            await turns()
    bodies = [(await each).body for each in (*asked, late)]
    assert (bodies.count(b"plain 1"), bodies[0], bodies[-1], making.begun) == (1, b"plain 1", b"plain 2", 2)
    assert scrapes._made == {}


async def test_each_format_has_a_text_of_its_own() -> None:
    making = Making()
    scrapes = SharedScrapes(making.text)
    asked = [asyncio.create_task(scrapes.answer(each)) for each in (PLAIN, OTHER)]
    for nth in range(2):
        await turns()
        making.ends[nth].set_result(None)
    answers = [await each for each in asked]
    assert [(each.body, each.headers["content-type"].partition(";")[0]) for each in answers] == [
        (b"plain 1", "text/plain"),
        (b"other 2", "application/openmetrics-text"),
    ]


async def test_a_scrape_that_fails_fails_alone() -> None:
    making = Making()
    scrapes = SharedScrapes(making.text)
    first, second = (asyncio.create_task(scrapes.answer(PLAIN)) for _ in range(2))
    await turns()
    making.ends[0].set_exception(OSError("no thread"))
    await turns()
    making.ends[1].set_result(None)
    with pytest.raises(OSError, match="no thread"):
        await first
    assert (await second).body == b"plain 2"


OPENMETRICS = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (f"{OPENMETRICS};version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4", "1.0.0"),
        (f"{OPENMETRICS}; version=1.0.0", "1.0.0"),
        (f"{OPENMETRICS};version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "0.0.4"),
        (f"{OPENMETRICS}; version=1.0.99", "1.0.0"),
        (f"{OPENMETRICS}; version=1.0.0.1; escaping=dots", "1.0.0"),
        (f"{OPENMETRICS}; version=abc", "1.0.0"),
        (f"text/plain; version=1.0.0, {OPENMETRICS}", "1.0.0"),
        ("text/plain; version=", "0.0.4"),
        ("", "0.0.4"),
    ],
)
def test_a_version_that_no_format_has_makes_no_format(accept: str, content_type: str) -> None:
    """Each version above 1.0.0 was one, with a text of its own; one that is no number was an error with a traceback."""
    told = format_of(accept).content_type
    assert f"version={content_type};" in told
    assert ("openmetrics" in told) is (accept.startswith(OPENMETRICS) and content_type != "0.0.4")
    assert format_of(told).content_type.replace("; escaping=underscores", "") == told.replace(
        "; escaping=underscores", ""
    )


def registry(broker: int) -> CollectorRegistry:
    own = CollectorRegistry()
    Gauge("purgatory_size", "Waiting.", ["broker", "name"], registry=own).labels(str(broker), 'a,broker="x').set(broker)
    Gauge("memory_bytes", "Memory.", registry=own).set(10 * broker)
    Counter("collections", "Garbage.", ["generation"], registry=own).labels("0").inc()
    return own


def test_each_family_is_told_once_with_the_samples_of_all_processes() -> None:
    text = joined_metrics({f"broker {each}": generate_latest(registry(each)).decode() for each in (1, 2)})
    families = {family.name: family for family in parse(text)}
    assert [(sample.labels["broker"], sample.value) for sample in families["purgatory_size"].samples] == [
        ("1", 1.0),
        ("2", 2.0),
    ]
    assert [(sample.labels, sample.value) for sample in families["memory_bytes"].samples] == [
        ({"process": "broker 1"}, 10.0),
        ({"process": "broker 2"}, 20.0),
    ]
    counted = [sample.labels for sample in families["collections"].samples]
    assert counted == [{"process": f"broker {each}", "generation": "0"} for each in (1, 2)]
    assert text.count("# HELP memory_bytes") == text.count("# TYPE memory_bytes") == 1


def test_openmetrics_ends_once() -> None:
    text = joined_metrics({f"broker {each}": open_text(registry(each)).decode() for each in (1, 2)})
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    assert {family.name for family in parse_open(text)} >= {"purgatory_size", "memory_bytes", "collections"}
