"""Operations of a test on a cluster of processes: what is asked over HTTP, and how refusals get back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.operations.purgatories import ListParked
from purgatorio.admin.operations.record_json import JsonRecord
from purgatorio.admin.operations.records import ProduceRecords, ReadRecords
from purgatorio.admin.operations.security import EditQuotas
from purgatorio.admin.operations.snapshots import Reset
from purgatorio.protocol.record import Record
from purgatorio.purgatory.clock import ManualClock
from purgatorio.testing.over_http import OverHttp


class FakeFront:
    """Answers as it is told, and notes what it was asked."""

    address = ("127.0.0.1", 9644)

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any]] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        query = scope["query_string"].decode()
        self.asked.append((scope["path"] + (f"?{query}" if query else ""), json.loads(body) if body else None))
        status, answer = self.answers.pop(0)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


def over_http(front: FakeFront) -> OverHttp:
    return OverHttp(SimpleNamespace(clock=ManualClock(0)), front)  # type: ignore[arg-type]


async def test_records_are_told_as_json_and_what_is_as_by_default_is_not() -> None:
    front = FakeFront((200, {"records": []}), (200, {}))
    records = [JsonRecord(None, b"\xff", (("h", b"1"),), partition=2)]
    await over_http(front).ask(ProduceRecords.of("orders", records, "shop"))
    await over_http(front).ask(EditQuotas({"producer_byte_rate": 1.0}, user=None))
    told = {"partition": 2, "timestamp_ms": None, "key": None, "value_base64": "/w=="}
    told["headers"] = [{"name": "h", "value": "1"}]
    assert front.asked == [
        ("/api/v1/topics/orders/records", {"records": [told], "client": "shop"}),
        ("/api/v1/quotas/edit", {"quotas": {"producer_byte_rate": 1.0}, "user": None}),
    ]


async def test_records_are_read_by_partitions_and_pages() -> None:
    def page(offset: int, *, more: bool) -> tuple[int, Any]:
        row = {"partition": 0, "offset": offset, "timestamp_ms": -1, "key": "k", "value_base64": "/w==", "headers": []}
        return 200, {"records": [row], "more": more}

    empty = 200, {"records": [], "more": False}
    front = FakeFront((200, {"partition_count": 2}), page(4, more=True), page(5, more=False), empty)
    read = await over_http(front).read(ReadRecords("orders"))
    assert [(index, *records) for index, records in read] == [
        (0, Record(4, -1, b"k", b"\xff")),
        (0, Record(5, -1, b"k", b"\xff")),
    ]
    assert [path for path, _ in front.asked] == [
        "/api/v1/topics/orders",
        "/api/v1/topics/orders/records?partition=0",
        "/api/v1/topics/orders/records?partition=0&offset=5",
        "/api/v1/topics/orders/records?partition=1",
    ]


async def test_refusals_are_the_errors_of_one_process() -> None:
    late = {"error": "orders-0: REQUEST_TIMED_OUT", "refusal": "TimedOut"}
    backend = over_http(FakeFront((503, late), (503, {**late, "refusal": "MayBeDone"}), (409, {"error": "no"})))
    for kind in (TimeoutError, ValueError, ValueError):
        with pytest.raises(kind):
            await backend.ask(ListParked())
    with pytest.raises(ValueError, match="start the cluster without processes=True"):
        await backend.ask(Reset())
