"""The page in a browser without a window: it goes on drawing after it was hidden, and no text covers another."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from purgatorio.broker.causes.cause import AwaitedMember, FollowerBehind, MarkersMissing, MembersToJoin, UnwrittenMarker
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.web.pages import STATIC

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(BROWSER is None, reason="the page's drawing needs chromium"),
]

NOW_MS = 1_000_000
VIRTUAL_MS = 5_000
"""The time that passes for the page; the browser makes it as short as it can."""
PATIENCE_SECONDS = 60
KINDS = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}

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
  const groups = ".group-state, .group-lag, .group-waits, .member-owns, .member-left, .member-says";
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
    top.postMessage({ ...last.getBoundingClientRect().toJSON(), height: innerHeight, width: innerWidth });
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


def partition(number: int, start: int, watermark: int, end: int) -> dict[str, Any]:
    """A partition of the state whose second replica has the records up to the high watermark only."""
    reached = {1: end, 2: watermark, 3: end}
    return {
        "topic": "orders",
        "partition": number,
        "leader": 1,
        "leader_epoch": 3,
        "isr": [1, 2, 3],
        "elr": [],
        "offline": False,
        "min_in_sync_replicas": 2,
        "log_start_offset": start,
        "high_watermark": watermark,
        "last_stable_offset": (start + watermark) // 2,
        "held_by": {"says": "held by the transaction of a-transactional-id-with-a-long-name, open 2.1 s"},
        "log_end_offset": end,
        "reassignment": None,
        "replicas": [
            {
                "broker": broker,
                "leader": broker == 1,
                "in_sync": True,
                "eligible": False,
                "log_end_offset": offset,
                "acknowledged_offset": offset,
                "lag": end - offset,
                "refusal": None,
            }
            for broker, offset in reached.items()
        ],
    }


def purgatory(name: str, delayed: int, entries: int) -> dict[str, Any]:
    """A purgatory of the state, with so many entries in each of some buckets."""
    operations = [
        {
            "id": number,
            "kind": "produce",
            "keys": ["orders-0"],
            "key_count": 1,
            "parked_ms": NOW_MS - 100,
            "deadline_ms": NOW_MS + 2_000 + 400 * number,
            "waited_ms": 100,
            "remaining_ms": 2_000 + 400 * number,
            "checks": 1,
            "client": "tests",
            "missing": "broker 2",
            "causes": [as_document(cause, 500) for cause in CAUSES],
        }
        for number in range(5 if delayed else 0)
    ]
    buckets = [{"expiration_ms": NOW_MS + 2_000 + 400 * number, "entries": entries} for number in range(9)]
    levels = [
        {"tick_ms": tick, "wheel_size": 20, "current_ms": NOW_MS, "buckets": buckets if tick == 400 and delayed else []}
        for tick in (1, 20, 400)
    ]
    return {
        "name": name,
        "watched": 3 * delayed,
        "num_delayed": delayed,
        "operations": operations,
        "watch_lists": [],
        "wheel": levels,
    }


def group(group_id: str, number: int) -> dict[str, Any]:
    """A group of the state with ten of its members, which own many partitions."""
    owned = [
        {"topic": f"orders-{each}", "partitions": list(range(0, 40, 3)), "partition_count": 400} for each in (1, 2)
    ]
    member = {
        "instance_id": None,
        "client": "an-application-with-a-long-client-id",
        "host": "127.0.0.1",
        "epoch": 1_234,
        "owned": owned,
        "waits_for": "has to give up orders-1-3, orders-1-6, orders-1-9 and 120 more",
        "session_left_ms": 44_900 * number,
        "session_timeout_ms": 100_000,
    }
    return {
        "id": group_id,
        "type": "consumer",
        "state": "PreparingRebalance",
        "protocol_type": "consumer",
        "assignor": "cooperative-sticky",
        "epoch": 1_234,
        "coordinator": 1,
        "member_count": 1_000,
        "offset_count": 1_000,
        "lag": 1_234_567,
        "waits_for": "epoch 1234 of billing waits for members a, b, c, d, e and 995 more to give up partitions",
        "members": [{**member, "member_id": f"{group_id}-{each}"} for each in range(10)],
    }


def transaction(number: int) -> dict[str, Any]:
    """A transactional id of the state: with a transaction that is open, is being ended, or has ended."""
    names = ("Ongoing", "PrepareCommit", "CompleteAbort")
    is_open, has_partitions = number == 0, number < 2
    return {
        "id": f"a-transactional-id-with-a-name-of-its-own-{number}",
        "state": names[number],
        "producer_id": 1_234_567,
        "producer_epoch": 32_766,
        "coordinator": 3,
        "open_ms": 123_456 if has_partitions else None,
        "timeout_ms": 900_000,
        "timeout_left_ms": 123_456 if is_open else None,
        "idle_ms": 1_234_567,
        "partition_count": 1_234 if has_partitions else 0,
        "missing_markers": 5 if number == 1 else 0,
        "waits_for": "" if number != 1 else "the transaction of billing waits for the markers of orders-1 (broker 2)",
        "causes": [as_document(CAUSES[-1], 500)] if number == 1 else [],
        "partitions": [f"a-topic-with-a-long-name-{each}" for each in range(10)] if has_partitions else [],
    }


def wait(number: int) -> dict[str, Any]:
    """A group of waits, with a sentence as long as they get."""
    requests = "134 produce requests of 12 clients wait for broker 3"
    return {
        "kind": "NoRecordsYet" if number == 5 else "FollowerBehind",
        "actor": str(number),
        "broker_ids": [3],
        "ordinary": number == 5,
        "counts": {"produce": 134},
        "clients": [],
        "client_count": 12,
        "partitions": ["orders-0"],
        "partition_count": 60,
        "waited_ms": 123_456,
        "remaining_ms": 12_345,
        "says": f"{requests}, whose process has not answered for 12 s: up to 12345 records behind on 60 partitions.",
        "ways": [{"does": "Release fetches", "path": "brokers/3/follower", "body": {"held": False}}],
    }


def state() -> dict[str, Any]:
    """The state of a busy cluster, as `/api/v1/state` tells it; its time stands still."""
    broker = {
        "id": 1,
        "state": "running",
        "host": "127.0.0.1",
        "port": 9092,
        "registered": True,
        "paused": False,
        "cut_off_from": [],
        "controller": True,
        "broker_epoch": 1,
        "fenced": False,
        "lease": {"id": 1, "held": True},
        "connections": 3,
        "follower": {"held": False, "delay_ms": 0},
        "finished_total": 0,
        "purgatories": [
            purgatory("Produce", 123, 345),
            purgatory("Fetch", 678, 90),
            purgatory("DeleteRecords", 0, 0),
            purgatory("ElectLeader", 1_234_567, 7),
        ],
    }
    ends = [(0, 2, 10), (0, 700, 840), (1_234_567, 1_234_569, 1_234_577), (0, 8_400_000, 10_000_000), (0, 999, 1_000)]
    partitions = [partition(number, *offsets) for number, offsets in enumerate(ends)]
    brokers = [broker | {"id": number} for number in (1, 2, 3)]
    return {
        "cluster_id": "tests",
        "now_ms": NOW_MS,
        "wall_ms": NOW_MS,
        "waits": [wait(number) for number in range(6)],
        "brokers": brokers,
        "partitions": partitions,
        "partition_count": len(partitions),
        "groups": [group(f"a-group-with-a-name-of-its-own-{number}", number) for number in range(3)],
        "group_count": 1_234,
        "transactions": [transaction(number) for number in range(3)],
        "transaction_counts": {"ids": 1_234, "open": 1, "committed": 12_345, "aborted": 67, "timed_out": 8},
        "finished": [],
    }


def matrix() -> dict[str, Any]:
    """The rows of the same partitions, as `/api/v1/matrix` tells them."""
    rows = [
        [row["topic"], row["partition"], 1, 3, "waits", [[each["broker"], each["lag"], 1] for each in row["replicas"]]]
        for row in state()["partitions"]
    ]
    return {"cluster_id": "tests", "now_ms": NOW_MS, "partition_count": len(rows), "rows": rows}


GROUP, ID = "a-group-with-a-name-of-its-own-0", "a-transactional-id-with-a-name-of-its-own-1"
CAUSES = [
    FollowerBehind(TopicPartition("orders", 0), 2, 40, 42),
    FollowerBehind(TopicPartition("not-shown", 0), 9, 40, 42),
    MembersToJoin(GROUP, (AwaitedMember(f"{GROUP}-0", "first"),), 0, 0),
    MarkersMissing(ID, (UnwrittenMarker(TopicPartition("orders", 1), 2, ""),), 0),
]


class Page(BaseHTTPRequestHandler):
    """Serves the page with a script added that looks at it and tells what it saw."""

    def __init__(self, probe: str, *args: Any) -> None:
        self.probe = probe
        super().__init__(*args)

    def do_GET(self) -> None:
        name = "index.html" if self.path == "/" else Path(self.path).name
        if self.path.startswith("/api/v1/state"):
            kind, body = "application/json", json.dumps(state())
        elif self.path == "/api/v1/matrix":
            kind, body = "application/json", json.dumps(matrix())
        elif name == "probe.js":
            tell = "const tell = (said) => { document.body.dataset.said = JSON.stringify(said); };"
            kind, body = "text/javascript", tell + self.probe
        else:
            kind, body = KINDS[Path(name).suffix], (STATIC / name).read_text()
            body = body.replace("</head>", '<script type="module" src="/static/probe.js"></script></head>')
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a page with the script that the test is parametrized with."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Page, request.param))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


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
