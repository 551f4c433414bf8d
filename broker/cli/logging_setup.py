"""The command's log lines: all of them go to one stream, for people or as one JSON object per line.

Purgatorio and third-party code log through `logging`; structlog's formatter gives all records the same look.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from purgatorio.logger import Event

LogFormat = Literal["console", "json"]


def configure_logging(log_format: LogFormat = "console", level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log line of this process to one stream.

    Args:
        log_format: ``console`` for people, in colour on a terminal; ``json`` for machines.
        level: the least severe level that is written, by its lower-case name.
        stream: the stream; not given: the standard error, since the standard output belongs to the command.
    """
    stream = stream if stream is not None else sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                _take_event,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.add_log_level,
                structlog.stdlib.ExtraAdder(),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(log_format, stream)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    # The admin server's own start-up lines say nothing that the command does not print.
    logging.getLogger("uvicorn").setLevel(max(threshold, logging.WARNING))


def _take_event(_: WrappedLogger, __: str, entry: EventDict) -> EventDict:
    """Replace the line of an `Event` by its name and its fields."""
    if "stack_info" in entry:
        entry["stack"] = entry.pop("stack_info")  # structlog's name for it
    message = entry["_record"].msg
    return {**message.fields, **entry, "event": message.event} if isinstance(message, Event) else entry


def _rendering(log_format: LogFormat, stream: TextIO) -> list[Processor]:
    """The last processors: the time, the traceback if there is one, and the line."""
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
