"""Spans of delayed operations, by OpenTelemetry's SDK, which queues them and sends them from a thread of its own.

A span lasts from the time at which an operation was parked until it ended. It is of the kind INTERNAL, since the
messaging conventions (1.45) are for clients; their names are used where there are any, ours begin with ``purgatorio.``.
A produce request's span is linked to the trace of the first record of its first batch: its header ``traceparent``
(W3C Trace Context). Follower fetches have none: they belong to no client's trace, and end all the time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from purgatorio.broker.causes.kinds import FOLLOWER_FETCH, PRODUCE
from purgatorio.broker.delays.finished import detail_of, kind_of
from purgatorio.broker.delays.span_maker import Spans, Watch
from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.writes import PendingAck, WatchAcks
from purgatorio.protocol.errors import DecodeError
from purgatorio.protocol.records import iter_batches, iter_unpacked, unpack_records
from purgatorio.purgatory import FinishedOperation
from purgatorio.purgatory.clock import Clock

MAX_LINKS: Final = 10_000
"""Produce requests that wait, and whose trace is known; of more, the oldest are forgotten."""
MAX_UNPACKED_BYTES: Final = 1024 * 1024
"""A larger batch is not unpacked to look for its trace."""
MAX_TEXT: Final = 500
MAX_KEYS: Final = 20
"""Partitions that a span names."""
CLOSE_MS: Final = 2_000
"""How long a broker that stops waits for the last spans to be sent."""
EXPORT_SECONDS: Final = 2.0
"""The longest time of one request to the receiver."""

_TRACEPARENT: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_UNTRACED: Final = FOLLOWER_FETCH.noun
_NS_PER_MS: Final = 1_000_000


def exported(endpoint: str, broker_id: int, clock: Clock) -> OperationSpans:
    """Return a maker of spans that sends them to a receiver of OTLP over HTTP."""
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_SECONDS)
    return OperationSpans(BatchSpanProcessor(exporter), broker_id, clock)


class OperationSpans(Spans):
    """Makes a span of each operation that has ended.

    Args:
        processor: is given the spans.
        clock: converts the operations' monotonic times to wall time.
    """

    def __init__(self, processor: SpanProcessor, broker_id: int, clock: Clock) -> None:
        names = {"service.name": "purgatorio", "service.instance.id": f"broker-{broker_id}"}
        self._provider = TracerProvider(resource=Resource.create(names), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("purgatorio")
        self._broker_id = broker_id
        self._clock = clock
        self._links: dict[int, SpanContext] = {}

    @property
    def watch_acks(self) -> WatchAcks | None:
        return self._parked

    def also(self, watch: Watch) -> Watch:
        def both(operation: FinishedOperation) -> None:
            watch(operation)
            self.add(operation)

        return both

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._provider.force_flush(CLOSE_MS)
        self._provider.shutdown()

    def _parked(self, operation_id: int, pending: Sequence[PendingAck]) -> None:
        """Remember the trace of a produce request that waits."""
        context = trace_of(pending[0])
        if context is not None:
            self._links[operation_id] = context
            if len(self._links) > MAX_LINKS:
                del self._links[next(iter(self._links))]

    def add(self, operation: FinishedOperation) -> None:
        """Make the span of an operation that has just ended."""
        kind = kind_of(operation.purgatory, operation.keys).noun
        if kind == _UNTRACED:
            return
        to_wall_ms = self._clock.wall_ms() - self._clock.now_ms()
        began = (operation.parked_ms + to_wall_ms) * _NS_PER_MS
        ended = max(began, (operation.done_ms + to_wall_ms) * _NS_PER_MS)
        context = self._links.pop(operation.id, None) if operation.purgatory == PRODUCE.purgatory else None
        span = self._tracer.start_span(
            f"wait: {kind}",
            kind=SpanKind.INTERNAL,
            attributes=self._attributes(operation, kind),
            links=() if context is None else (Link(context),),
            start_time=began,
        )
        span.add_event("parked", {"purgatorio.deadline_ms": operation.deadline_ms - operation.parked_ms}, began)
        span.add_event("checked", {"purgatorio.checks": operation.checks}, ended)
        if operation.held_by:
            span.add_event("held", {"purgatorio.held_by": [str(each) for each in operation.held_by[:MAX_KEYS]]}, ended)
        if operation.outcome == "error":
            span.set_status(Status(StatusCode.ERROR, operation.error[:MAX_TEXT]))
        span.end(ended)

    def _attributes(self, operation: FinishedOperation, kind: str) -> dict[str, AttributeValue]:
        found = list(islice((key for key in operation.keys if isinstance(key, TopicPartition)), MAX_KEYS))
        told: dict[str, AttributeValue] = {
            "messaging.system": "kafka",
            "purgatorio.broker": self._broker_id,
            "purgatorio.purgatory": operation.purgatory,
            "purgatorio.kind": kind,
            "purgatorio.outcome": operation.outcome,
            "purgatorio.cause": operation.cause[:MAX_TEXT],
            "purgatorio.waits_for": [str(key)[:MAX_TEXT] for key in operation.keys[:MAX_KEYS]],
        }
        if operation.client:
            told["messaging.client.id"] = operation.client[:MAX_TEXT]
        if found and all(tp.topic == found[0].topic for tp in found):
            told["messaging.destination.name"] = found[0].topic
        if len(operation.keys) == 1 and found:
            told["messaging.destination.partition.id"] = str(found[0].partition)
        if missing := detail_of(operation):
            told["purgatorio.missing"] = missing[:MAX_TEXT]
        if operation.outcome == "error":
            told["error.type"] = operation.error.partition("(")[0][:MAX_TEXT] or "_OTHER"
        return told


def trace_of(ack: PendingAck) -> SpanContext | None:
    """Return the trace that the first record of a batch in the log belongs to; None if its headers name none."""
    log, offset = ack.partition.log, ack.result.base_offset
    try:
        read = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
        header, batch = next(iter(iter_batches(b"".join(read.parts))))
        record = next(iter(iter_unpacked(header, unpack_records(header, batch, MAX_UNPACKED_BYTES))))
    except (LogError, DecodeError, StopIteration):
        return None
    found = next((value for name, value in record.headers if name == "traceparent" and value), b"")
    return context_of(found)


def context_of(traceparent: bytes) -> SpanContext | None:
    """Return the span context of a ``traceparent``; None if it is malformed."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return None
    trace_id, span_id, flags = (int(each, 16) for each in match.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid else None
