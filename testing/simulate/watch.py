"""Watches a run for failures that no code handles: of tasks and callbacks, of brokers, and what fences refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from purgatorio.simulation.world.loop import Node, current_node
from purgatorio.simulation.world.network import name_of
from purgatorio.testing.simulate.errors import OutsideSimulation
from purgatorio.testing.simulate.journal import Journal
from purgatorio.testing.simulate.loop import ServiceLoop
from purgatorio.testing.simulate.replacing import replaced

BROKERS_LOGGER: Final = "purgatorio"


class BrokerFailed(RuntimeError):
    """A broker logged an error: it has a bug."""


class Watch(logging.Handler):
    """Keeps warnings of the log in the journal, and reports failures.

    Args:
        failed: called with the name of the process and the exception.
    """

    def __init__(self, journal: Journal, failed: Callable[[str, BaseException], None]) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal
        self._failed = failed
        self._loop: ServiceLoop | None = None

    def fenced(self, error: OutsideSimulation) -> None:
        """Report a fence's refusal, which the process may have swallowed."""
        node = current_node()
        if node is None or node.alive:
            self._failed(name_of(node), error)

    def follow(self, loop: ServiceLoop) -> None:
        """Watch the callbacks and tasks of a loop."""
        self._loop = loop
        loop.set_exception_handler(self._reached_the_loop)

    def look(self) -> None:
        """Report the exceptions in tasks of living processes that nothing has awaited."""
        for node, error in [] if self._loop is None else self._loop.never_retrieved():
            if node is None or node.alive:
                self._failed(name_of(node), error)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of the simulation's own thread; an error of a broker is a failure."""
        node = current_node()
        if node is not None and not node.alive:
            return  # its tasks unwind; the process that it stands for can log nothing
        text = f"{record.name}: {_message(record)}"
        self._journal.record(name_of(node), "log", f"{record.levelname} {text}")
        if record.levelno >= logging.ERROR and record.name.partition(".")[0] == BROKERS_LOGGER:
            error = BrokerFailed(text)
            error.__cause__ = record.exc_info[1] if record.exc_info else None
            self._failed(name_of(node), error)

    def _reached_the_loop(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            return  # "was never closed": reported by a destructor, of a process that may be dead
        node = self._node_of(context)
        if node is None or node.alive:
            self._failed(name_of(node), error)

    def _node_of(self, context: dict[str, Any]) -> Node | None:
        failed = context.get("future") or context.get("task")
        if failed is not None and self._loop is not None and id(failed) in self._loop.failed_in:
            return self._loop.failed_in[id(failed)]
        # Python 3.11 calls the handler outside of the callback's context.
        of = getattr(context.get("handle"), "_context", None)
        return current_node() if of is None else of.run(current_node)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # as `logging` does, which reports it and lets the program go on
        return f"{record.msg} ({error!r})"


@contextlib.contextmanager
def logged(watch: Watch) -> Iterator[None]:
    """Have all that this thread logs go to the watch alone while the context lasts: its lines have virtual times."""
    thread, call_handlers = threading.get_ident(), logging.Logger.callHandlers

    def to_watch(logger: logging.Logger, record: logging.LogRecord) -> None:
        if threading.get_ident() != thread:
            call_handlers(logger, record)
        elif record.levelno >= watch.level:
            watch.handle(record)

    before = {logger: _state(logger) for logger in _loggers()}
    try:
        with replaced({(logging.Logger, "callHandlers"): to_watch}):
            yield
    finally:
        # Services configure their loggers at each start: filters would add up from seed to seed.
        for logger in _loggers():
            if logger in before:
                logger.handlers, logger.filters, logger.propagate, logger.disabled = before[logger][:-1]
                logger.setLevel(before[logger][-1])
            else:
                logger.handlers, logger.filters = [], []


def _loggers() -> list[logging.Logger]:
    known = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    return [logging.root, *known]


def _state(logger: logging.Logger) -> tuple[list[logging.Handler], list[Any], bool, bool, int]:
    return [*logger.handlers], [*logger.filters], logger.propagate, logger.disabled, logger.level
