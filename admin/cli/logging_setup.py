"""The command's log lines: all of them go to one stream, for people or as one JSON object per line.

Clients cause lines, and put their names into them. So each kind of line has a budget, and each value a longest length.

Purgatorio and third-party code log through `logging`; structlog's formatter gives all records the same look. It is
imported with the first line: that takes a tenth of the time until a cluster is ready, and a test's cluster writes none.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal, TextIO

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.logger import LineBudget, LogEvent, cut
from purgatorio.purgatory.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["console", "json"]

LINES_PER_EVENT: Final = 200
"""Lines of one event within the ten seconds of a `LineBudget`: more than a busy cluster writes, and no flood."""
MAX_VALUE_CHARS: Final = 1_000
"""The longest value in a line. Values with several partitions or members are longer than a client's name."""


def configure_logging(
    log_format: LogFormat = "console",
    level: str = "info",
    stream: TextIO | None = None,
    clock: Clock | None = None,
) -> None:
    """Send every log line of this process to one stream.

    Args:
        log_format: ``console`` for people, in colour on a terminal; ``json`` for machines.
        level: the least severe level that is written, by its lower-case name.
        stream: the stream; not given: the standard error, since the standard output belongs to the command.
        clock: times the lines; by default the system's.
    """
    stream = stream if stream is not None else sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(stream)
    handler.addFilter(EventBudgets(clock or SystemClock()))
    handler.setFormatter(_LateFormatter(lambda: _formatter(log_format, stream)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    # The admin server's own start-up lines say nothing that the command does not print.
    logging.getLogger("uvicorn").setLevel(max(threshold, logging.WARNING))


class _LateFormatter(logging.Formatter):
    """A formatter that is made when the first line is written."""

    def __init__(self, make: Callable[[], logging.Formatter]) -> None:
        super().__init__()
        self._make = make
        self._made: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._made is None:
            self._made = self._make()
        return self._made.format(record)


@contextlib.contextmanager
def _without_rich() -> Iterator[None]:
    """Let nothing import rich: structlog does if it is installed, for tracebacks in colour, which are not used here.

    It takes 4 MB, and a tenth of the CPU time until a cluster is ready.
    """
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # so that its import fails
    try:
        yield
    finally:
        del sys.modules["rich"]


def _formatter(log_format: LogFormat, stream: TextIO) -> logging.Formatter:
    with _without_rich():
        import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            _take_event,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.stdlib.ExtraAdder(),
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(log_format, stream)],
    )


class EventBudgets(logging.Filter):
    """Bounds the lines of each event; the first line that is written again has the number of those left out."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._budgets: dict[tuple[str, str], LineBudget] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        event = record.msg
        if not isinstance(event, LogEvent):
            return True
        budget = self._budgets.setdefault((record.name, event.event), LineBudget(LINES_PER_EVENT))
        left_out = budget.take(self._clock.now_ms())
        if left_out:
            event.fields["lines_left_out"] = left_out
        return left_out is not None


def _take_event(_: WrappedLogger, __: str, entry: EventDict) -> EventDict:
    """Replace the line of a `LogEvent` by its name and its fields."""
    if "stack_info" in entry:
        entry["stack"] = entry.pop("stack_info")  # structlog's name for it
    message = entry["_record"].msg
    if not isinstance(message, LogEvent):
        return entry
    fields = {
        name: cut(value, MAX_VALUE_CHARS) if isinstance(value, str) else value for name, value in message.fields.items()
    }
    return {**fields, **entry, "event": message.event}


def _rendering(log_format: LogFormat, stream: TextIO) -> list[Processor]:
    """The last processors: the time, the traceback if there is one, and the line."""
    import structlog

    if log_format == "json":
        return [
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    return [
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(),
            # Values come from clients too: quoted, they cannot forge lines or drive the terminal.
            repr_native_str=True,
            # The default would import a terminal library, if there is one, for every traceback.
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]
