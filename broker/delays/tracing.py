"""Whether a broker makes spans of its delayed operations; what OpenTelemetry needs is imported only if it does."""

from __future__ import annotations

from purgatorio.broker.delays.span_maker import Spans, Watch
from purgatorio.broker.replica.producing.writes import WatchAcks
from purgatorio.purgatory.clock import Clock


class SpansMissing(Exception):
    """OpenTelemetry is not installed; the message says how to install it."""


class NoSpans:
    """Makes no spans, at no cost: `also` returns the observer itself."""

    watch_acks: WatchAcks | None = None

    def also(self, watch: Watch) -> Watch:
        return watch

    async def close(self) -> None:
        return


def spans_of(endpoint: str | None, broker_id: int, clock: Clock) -> Spans:
    """Return the maker of a broker's spans.

    Args:
        endpoint: where they are sent by OTLP over HTTP, such as http://localhost:4318; None: there are none.

    Raises:
        SpansMissing: the extra `otel` is not installed.
    """
    if endpoint is None:
        return NoSpans()
    try:
        from purgatorio.broker.delays import spans
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        from purgatorio import extras

        raise SpansMissing(f"traces need an extra: {extras.install('otel')}") from None
    return spans.exported(endpoint, broker_id, clock)
