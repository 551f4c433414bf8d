"""The page in a browser without a window: it goes on drawing after it was hidden, and no text covers another."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.web.served_page import BROWSER, GROUP, ID, serve

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(BROWSER is None, reason="the page's drawing needs chromium"),
]

VIRTUAL_MS = 5_000
"""The time that passes for the page; the browser makes it as short as it can."""
PATIENCE_SECONDS = 60

SIZES = ([1280, 720], [1920, 1080], [390, 844])
"""Screens, in CSS pixels: a laptop, a desktop, a phone."""

HIDE = """
const inked = (id) => {
  const canvas = document.getElementById(id);
  if (!canvas.width || !canvas.height) return 0;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.reduce((sum, value, at) => sum + (at % 4 === 3 && value > 0 ? 1 : 0), 0);
};
const main = document.getElementById("main");
setTimeout(() => { main.hidden = true; }, 800);
setTimeout(() => { main.hidden = false; }, 1100);
setTimeout(() => tell({ wheel: inked("wheel"), timeline: inked("timeline") }), 2000);
"""
OVERLAPS = """
const boxes = (selector) => [...document.querySelectorAll(selector)].flatMap((each) => {
  if (!each.textContent || getComputedStyle(each).visibility === "hidden") return [];
  const range = document.createRange(); // the box of the text, which may be wider than its element
  range.selectNodeContents(each);
  return [{ text: each.textContent, ...range.getBoundingClientRect().toJSON() }];
});
const clash = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
setTimeout(() => {
  const found = [];
  document.querySelectorAll(".row[aria-expanded=false]").forEach((row) => row.click());
  const groups = ".group-state, .group-lag, .group-why, .group-waits, .member-owns, .member-left, .member-says, "
    + ".share-name, .share-says";
  const answers = ".says, .answer-times, .way, .answers-more, .ordinary summary";
  const partitions = ".partition h3, .partition-says, .partition-held, .replica-name, .lag";
  const transactions = ".transaction-state, .transaction-since, .transaction .meta, "
    + ".transaction-partitions, .transaction-waits, .transaction .left, .transaction button";
  const brokers = ".purgatory strong, .purgatory span, .watched, .gate-says";
  for (const group of [brokers, answers, ".scale span", groups, partitions, transactions]) {
    const all = boxes(group);
    if (all.length === 0) found.push(`nothing matches ${group}`);
    all.forEach((a, i) => all.slice(i + 1).forEach((b) => { if (clash(a, b)) found.push(`${a.text} | ${b.text}`); }));
  }
  for (const card of document.querySelectorAll(".partition")) {
    const { right } = card.getBoundingClientRect();
    const outside = [...card.querySelectorAll(".lag")].filter((lag) => lag.getBoundingClientRect().right > right);
    found.push(...outside.map((lag) => lag.textContent));
  }
  tell(found);
}, 1000);
"""

FOLD = """
// The page in a frame, since the browser's own window cannot be as narrow as that of a phone.
if (window === top) {
  window.addEventListener("message", ({ data }) => tell(data));
  document.body.replaceChildren(...[SIZES].map(([width, height]) => {
    const frame = document.createElement("iframe");
    Object.assign(frame, { width, height, src: "/" });
    return frame;
  }));
} else {
  setTimeout(() => {
    const last = [...document.querySelectorAll(".says")].slice(0, 3).at(-1);
    const { top: below } = document.getElementById("ribbon").getBoundingClientRect(); // it covers what is under it
    top.postMessage({ ...last.getBoundingClientRect().toJSON(), height: below, width: innerWidth });
  }, 1500);
}
"""
LINKS = """
setTimeout(() => {
  tell([...document.querySelectorAll("#operations li:first-child .links a, .transaction .links a")].map((link) => {
    link.click();
    const named = document.querySelector(":target")?.querySelector("h3, .cell, .member-name, .matrix-name");
    return [link.textContent, named.textContent];
  }));
}, 2500);
"""


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a page with the script that the test is parametrized with."""
    with serve(request.param) as served:
        yield served.url


def look(url: str, profile: Path, width: int) -> Any:
    """What the script tells of the page, in a window of this width in CSS pixels."""
    assert BROWSER is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
    time = ["--run-all-compositor-stages-before-draw", f"--virtual-time-budget={VIRTUAL_MS}"]
    argv = [BROWSER, *flags, *time, f"--window-size={width},1500", "--dump-dom", url]
    dom = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout
    said = re.search(r'data-said="([^"]*)"', dom)
    assert said is not None, dom[-500:]
    return json.loads(html.unescape(said[1]))


@pytest.mark.parametrize("url", [HIDE], indirect=True, ids=["hidden"])
def test_the_wheel_and_the_timeline_are_drawn_again_after_the_page_was_hidden(url: str, tmp_path: Path) -> None:
    """A hidden element has no size; a ring of a negative radius ended the drawing for good."""
    inked = look(url, tmp_path, 1360)
    assert inked["wheel"] > 1000
    assert inked["timeline"] > 500


@pytest.mark.parametrize("width", [1360, 500])
@pytest.mark.parametrize("url", [OVERLAPS], indirect=True, ids=["overlaps"])
def test_long_numbers_and_offsets_cover_no_other_text(url: str, tmp_path: Path, width: int) -> None:
    assert look(url, tmp_path, width) == []


@pytest.mark.parametrize(
    "url", [FOLD.replace("SIZES", str(size)) for size in SIZES], indirect=True, ids=map(str, SIZES)
)
def test_the_worst_causes_are_said_above_the_fold(url: str, tmp_path: Path) -> None:
    """Three sentences are seen without scrolling, on each of these screens."""
    box = look(url, tmp_path, 2_000)
    assert 0 < box["top"] < box["bottom"] < min(box["height"], 720)
    assert 0 <= box["left"] < box["right"] <= box["width"]


@pytest.mark.parametrize("url", [LINKS], indirect=True, ids=["links"])
def test_what_an_operation_waits_for_is_a_click_away(url: str, tmp_path: Path) -> None:
    """Each link leads to the part of the page that it names; what the page does not show has no link."""
    assert [tuple(each) for each in look(url, tmp_path, 1360)] == [
        ("orders-0", "orders-0"),
        ("broker 2", "Broker 2"),
        (f"group {GROUP}", GROUP),
        ("member first", "an-application-with-a-long-client-id …wn-0-0"),
        (f"transaction {ID}", ID),
        ("orders-1", "orders-1"),
        ("orders-1", "orders-1"),
        ("broker 2", "Broker 2"),
    ]
