"""Spans of delayed operations, kept in memory, and sent to a receiver of OTLP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

pytest.importorskip("opentelemetry.sdk", reason="these tests need the extra otel")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from purgatorio.broker.delays import spans as spans_module
from purgatorio.broker.delays.spans import OperationSpans, context_of, exported
from purgatorio.broker.delays.tracing import NoSpans, SpansMissing, spans_of
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.delayed_fetch import FollowerKey
from purgatorio.purgatory import FinishedOperation
from purgatorio.purgatory.clock import ManualClock
from purgatorio.testing import cluster

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01".encode()
ORDERS = TopicPartition("orders", 0)


def ended(**facts: Any) -> FinishedOperation:
    known: dict[str, Any] = {
        "id": 7,
        "purgatory": "Produce",
        "keys": (ORDERS,),
        "parked_ms": 1_000,
        "done_ms": 1_250,
        "deadline_ms": 31_000,
        "outcome": "completed",
        "cause": "high watermark",
        "checks": 3,
        "causes": (),
        "error": "",
        "client": "billing",
        "held_by": (3,),
        "event_key": ORDERS,
    }
    return FinishedOperation(**{**known, **facts})


class Traced:
    """Spans that are kept."""

    def __init__(self) -> None:
        self.kept = InMemorySpanExporter()
        self.spans = OperationSpans(SimpleSpanProcessor(self.kept), 1, ManualClock(2_000, 1_700_000_002_000))

    def add(self, **facts: Any) -> ReadableSpan:
        self.spans.add(ended(**facts))
        return self.kept.get_finished_spans()[-1]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_span_lasts_from_the_parking_to_the_end_in_wall_time(traced: Traced) -> None:
    span = traced.add()
    assert (span.name, span.kind) == ("wait: produce", SpanKind.INTERNAL)
    assert (span.start_time, span.end_time) == (1_700_000_001_000_000_000, 1_700_000_001_250_000_000)
    assert span.resource.attributes["service.instance.id"] == "broker-1"


def test_a_span_has_names_of_the_conventions_and_ours(traced: Traced) -> None:
    assert dict(traced.add().attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.client.id": "billing",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "purgatorio.broker": 1,
        "purgatorio.purgatory": "Produce",
        "purgatorio.kind": "produce",
        "purgatorio.outcome": "completed",
        "purgatorio.cause": "high watermark",
        "purgatorio.waits_for": ("orders-0",),
    }


def test_its_events_are_parked_checked_and_held(traced: Traced) -> None:
    span = traced.add()
    assert [(each.name, dict(each.attributes or {})) for each in span.events] == [
        ("parked", {"purgatorio.deadline_ms": 30_000}),
        ("checked", {"purgatorio.checks": 3}),
        ("held", {"purgatorio.held_by": ("3",)}),
    ]


def test_what_was_missing_at_the_deadline_is_told(traced: Traced) -> None:
    attributes = traced.add(outcome="expired", causes=["broker 3 is at 0 of 1"]).attributes or {}
    assert attributes["purgatorio.missing"] == "broker 3 is at 0 of 1"


def test_a_failure_is_an_error(traced: Traced) -> None:
    span = traced.add(outcome="error", error="KeyError('orders')")
    assert (span.status.status_code, (span.attributes or {})["error.type"]) == (StatusCode.ERROR, "KeyError")


def test_an_operation_on_several_topics_names_no_single_destination(traced: Traced) -> None:
    attributes = traced.add(keys=(ORDERS, TopicPartition("b", 1))).attributes or {}
    assert "messaging.destination.name" not in attributes
    assert attributes["purgatorio.waits_for"] == ("orders-0", "b-1")


def test_follower_fetches_have_no_span(traced: Traced) -> None:
    traced.spans.add(ended(purgatory="Fetch", keys=(ORDERS, FollowerKey(2))))
    assert traced.kept.get_finished_spans() == ()


def test_other_watchers_are_told_as_well(traced: Traced) -> None:
    seen: list[FinishedOperation] = []
    traced.spans.also(seen.append)(ended())
    assert (len(seen), len(traced.kept.get_finished_spans())) == (1, 1)


@pytest.mark.parametrize(
    "text", [b"", b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", TRACEPARENT + b"-x", TRACEPARENT.upper(), b"01" * 40]
)
def test_what_is_no_traceparent_is_no_link(text: bytes) -> None:
    assert context_of(text) is None


def test_links_are_bounded(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "MAX_LINKS", 2)
    monkeypatch.setattr(spans_module, "trace_of", lambda ack: context_of(TRACEPARENT))
    for number in (1, 2, 3):
        traced.spans._parked(number, [None])  # type: ignore[list-item]
    assert [len(traced.add(id=number).links) for number in (1, 2, 3)] == [0, 1, 1]


def test_without_an_endpoint_there_are_none_and_nothing_is_wrapped() -> None:
    spans = spans_of(None, 1, ManualClock())
    watch = [].append
    assert isinstance(spans, NoSpans)
    assert spans.also(watch) is watch
    assert spans.watch_acks is None


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.delitem(sys.modules, "purgatorio.broker.delays.spans")
    monkeypatch.delattr("purgatorio.broker.delays.spans")
    with pytest.raises(SpansMissing, match=r"pip install .*\[otel\]"):
        spans_of("http://localhost:4318", 1, ManualClock())


# --- a receiver ---


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    received: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    Receiver.received.clear()
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_a_waiting_produce_is_sent_with_the_trace_of_its_record(endpoint: str) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with cluster(traces_endpoint=endpoint) as kafka:
        kafka.topic("orders")
        kafka.produce("orders", "tea", headers={"traceparent": TRACEPARENT})
    sent = []
    for path, body in Receiver.received:
        assert path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(body)
        sent += [span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]
    (span,) = [span for span in sent if span.name == "wait: produce" and span.links]
    assert (span.links[0].trace_id.hex(), span.links[0].span_id.hex()) == (TRACE, SPAN)
    assert {each.key: each.value.string_value for each in span.attributes}["purgatorio.outcome"] == "completed"


@pytest.mark.slow
async def test_a_receiver_that_is_gone_keeps_no_broker_from_stopping(error_log: Any) -> None:
    spans = exported("http://127.0.0.1:1", 1, ManualClock())
    spans.add(ended())
    await asyncio.wait_for(spans.close(), 10)
    error_log.expect("Failed to export spans batch")
