"""The page, served to a browser with a state that stands still."""

from __future__ import annotations

import functools
import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from purgatorio.admin.web.pages import STATIC
from purgatorio.broker.causes.cause import (
    AwaitedMember,
    FollowerBehind,
    MarkersMissing,
    MembersToJoin,
    NotAcknowledged,
    UnwrittenMarker,
)
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.log.topic_partition import TopicPartition

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NOW_MS = 1_000_000
KINDS = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}


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


def share_group() -> dict[str, Any]:
    """A share group of the state with two members."""
    members = [
        {**each, "member_id": name, "client": f"{name}-the-worker", "waits_for": "", "owned": []}
        for each, name in zip(group(SHARE_GROUP, 1)["members"], ("ada", "bob"), strict=False)
    ]
    facts = {"type": "share", "state": "Stable", "member_count": 2, "offset_count": 0, "lag": None, "waits_for": ""}
    return {**group(SHARE_GROUP, 1), **facts, "protocol_type": "share", "assignor": "simple", "members": members}


def run(first: int, last: int, state: str, member: str | None = None, becomes: str | None = None) -> dict[str, Any]:
    """A run of records of a share partition; that of a member has lock 0."""
    lock, left_ms = (None, None) if member is None else (0, 23_000)
    facts = {"becomes": becomes, "deliveries": int(state != "hole"), "member": member, "left_ms": left_ms, "lock": lock}
    return {"first": first, "last": last, "state": state, **facts}


def share(
    partition: int, *runs: dict[str, Any], further: int = 0, new: int = 0, state: str = "active"
) -> dict[str, Any]:
    """A share partition of the state."""
    facts = {"start_offset": 0, "end_offset": (runs[-1]["last"] if runs else -1) + further, "lag": 1_234}
    counts = {"new_count": new, "runs": list(runs), "further_count": further}
    return {
        "group": SHARE_GROUP,
        "topic": "orders",
        "partition": partition,
        "leader": 1,
        "state": state,
        **facts,
        **counts,
    }


def shares() -> list[dict[str, Any]]:
    """Share partitions with a run of every state, with more than are shown, and one that is being loaded."""
    return [
        share(
            0,
            run(0, 11, "acquired", "ada"),
            run(12, 12, "acquired", "ada", becomes="acknowledged"),
            run(13, 14, "acknowledged"),
            run(15, 15, "archived"),
            run(16, 16, "archiving"),
            run(17, 17, "hole"),
            run(18, 40, "available"),
            new=7,
        ),
        share(1, *(run(each, each, "acknowledged" if each % 2 else "available") for each in range(40)), further=1_960),
        share(2, state="initializing"),
    ]


def tier_run(start: int, end: int, kind: str, trouble: str = "") -> dict[str, Any]:
    """A run of the strip of a tiered partition."""
    facts = {"bytes": 1_000 * (end - start), "segments": max(1, (end - start) // 100), "trouble": trouble}
    return {"start": start, "end": end, "kind": kind, **facts}


def tier_strip(partition: int, *runs: dict[str, Any], refused: bool = False) -> dict[str, Any]:
    """A tiered partition of the state."""
    offsets = {"log_start_offset": 0, "local_start_offset": 1_200, "copied_to": 2_000, "log_end_offset": 2_150}
    lag = {"uncopied_bytes": 150_000, "lag_bytes": 100_000, "lag_segments": int(refused)}
    place = {"rank": 0, "topic": "orders", "partition": partition, "leader": 1}
    return {**place, **offsets, **lag, "refused": refused, "runs": list(runs), "further_count": 0}


def tier() -> dict[str, Any]:
    """The tier, which does not work now, with a damaged segment and a read under way."""
    both, local = tier_run(1_200, 2_000, "both"), tier_run(2_000, 2_150, "local")
    damaged = tier_run(500, 600, "damaged", "100 bytes came of 1000 at 0")
    read = {"broker": 1, "key": "a-0", "of": "orders-0", "start": 0, "end": 100, "bytes": 100_000, "waited_ms": 340}
    not_copied = "150 kB of orders-0 are not copied: s3://shop has not worked for 40 s (503); producers are refused."
    return {
        "location": "s3://shop",
        "brokers": [{"id": 1, "trouble": "503", "away_ms": 40_000, "rebuilding": [], "read_count": 1}],
        "reads": [{**read, "says": "340 ms, third try (503)"}],
        "strips": [
            tier_strip(
                0, tier_run(0, 500, "remote"), damaged, tier_run(600, 1_200, "remote"), both, local, refused=True
            ),
            tier_strip(1, tier_run(0, 1_200, "remote"), both, local),
        ],
        "strip_count": 3,
        "says": [
            not_copied,
            "orders-0 [500, 600) cannot be read from s3://shop: 100 bytes came of 1000 at 0.",
        ],
    }


def locks() -> dict[str, Any]:
    """The purgatory of acquisition locks, with the one of the first run."""
    cause = NotAcknowledged(SHARE_GROUP, "ada", TopicPartition("orders", 0), 0, 11, 12, 1)
    known = purgatory("AcquisitionLock", 1, 1)
    lock = {
        **known["operations"][0],
        "kind": "acquisition lock",
        "keys": [f"{SHARE_GROUP}: orders-0 0–11"],
        "client": "",
    }
    return {**known, "operations": [{**lock, "causes": [as_document(cause, 500)]}]}


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
        "memory": {"limit_bytes": 2**30, "logs_bytes": 123_456_789, "requests_bytes": 1_000_000, "answers_bytes": 0},
        "connections": 3,
        "follower": {"held": False, "delay_ms": 0},
        "finished_total": 0,
        "purgatories": [
            purgatory("Produce", 123, 345),
            purgatory("Fetch", 678, 90),
            purgatory("DeleteRecords", 0, 0),
            purgatory("ElectLeader", 1_234_567, 7),
            locks(),
        ],
    }
    ends = [(0, 2, 10), (0, 700, 840), (1_234_567, 1_234_569, 1_234_577), (0, 8_400_000, 10_000_000), (0, 999, 1_000)]
    partitions = [partition(number, *offsets) for number, offsets in enumerate(ends)]
    brokers = [broker | {"id": number} for number in (1, 2, 3)]
    return {
        "cluster_id": "tests",
        "now_ms": NOW_MS,
        "wall_ms": int(time.time() * 1000),
        "waits": [wait(number) for number in range(6)],
        "brokers": brokers,
        "partitions": partitions,
        "partition_count": len(partitions),
        "groups": [*(group(f"a-group-with-a-name-of-its-own-{number}", number) for number in range(3)), share_group()],
        "shares": shares(),
        "tier": tier(),
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


SHARE_GROUP = "a-share-group-with-a-name-of-its-own"
GROUP, ID = "a-group-with-a-name-of-its-own-0", "a-transactional-id-with-a-name-of-its-own-1"
CAUSES = [
    FollowerBehind(TopicPartition("orders", 0), 2, 40, 42),
    FollowerBehind(TopicPartition("not-shown", 0), 9, 40, 42),
    MembersToJoin(GROUP, (AwaitedMember(f"{GROUP}-0", "first"),), 0, 0),
    MarkersMissing(ID, (UnwrittenMarker(TopicPartition("orders", 1), 2, ""),), 0),
]


@dataclass
class Served:
    """A page that is served.

    Attributes:
        url: its address.
        probe: a script that is added to it, which looks at it, and tells what it saw by `tell`.
        state: what `/api/v1/state` answers; None: nothing answers.
        refusal: the status of all answers, if it is not 0.
        next_ms: when to ask again, if it is not 0.
        matrix: what `/api/v1/matrix` answers.
        connections: what `/api/v1/connections` answers.
        why: what `/api/v1/why` answers.
        posted: the paths and bodies of what the page has changed.
    """

    url: str = ""
    probe: str = ""
    state: dict[str, Any] | None = field(default_factory=lambda: state())
    refusal: int = 0
    next_ms: int = 0
    matrix: dict[str, Any] = field(default_factory=lambda: matrix())
    connections: dict[str, Any] = field(default_factory=lambda: {"connections": [], "connection_count": 0})
    why: dict[str, Any] = field(default_factory=lambda: {"now_ms": NOW_MS, "conclusions": []})
    posted: list[tuple[str, Any]] = field(default_factory=list)


class Page(BaseHTTPRequestHandler):
    """Serves the page, and answers what it asks for."""

    def __init__(self, served: Served, *args: Any) -> None:
        self.served = served
        super().__init__(*args)

    def do_GET(self) -> None:
        name = "index.html" if self.path == "/" else Path(self.path).name
        if self.path.startswith("/api/v1/"):
            answer = getattr(self.served, self.path.removeprefix("/api/v1/").partition("?")[0])
            self._answer(
                "application/json", json.dumps(answer), self.served.refusal or (503 if answer is None else 200)
            )
            return
        if name == "probe.js":
            tell = "const tell = (said) => { document.body.dataset.said = JSON.stringify(said); };"
            kind, body = "text/javascript", tell + self.served.probe
        else:
            kind, body = KINDS[Path(name).suffix], (STATIC / name).read_text()
            if self.served.probe:
                body = body.replace("</head>", '<script type="module" src="/static/probe.js"></script></head>')
        self._answer(kind, body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.served.posted.append((self.path.removeprefix("/api/v1/"), json.loads(body)))
        self._answer("application/json", "{}")

    def _answer(self, kind: str, body: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        if self.served.next_ms:
            self.send_header("Purgatorio-Next-Ms", str(self.served.next_ms))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(probe: str = "") -> Iterator[Served]:
    """Serve the page to a browser for the span of a block."""
    served = Served(probe=probe)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Page, served))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
