"""Errors that simulated brokers log, and exceptions that reach the event loop: bugs, whatever the clients see.

A broker that survives its own bug (a request is answered UNKNOWN_SERVER_ERROR, a purgatory goes on after a failed
operation) hides it from the checks of the history. It has logged an error, though, with its traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, Final

from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.world.loop import Node, SimulatedLoop, current_node

INTERNAL_ERROR: Final = "internal-error"
MEANING: Final = "A broker or client logged an error, or an exception reached the event loop."
MAX_ERRORS: Final = 100
"""Errors kept for one simulation; one broken line of code may log an error with each request."""
_LOGGERS: Final = ("purgatorio", "asyncio")


class InternalErrors(logging.Handler):
    """Keeps the first `MAX_ERRORS` error records as anomalies, with the node that logged each and the virtual time.

    It replaces the exception handler of the simulation's loop.
    """

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(logging.ERROR)
        self.anomalies: list[Anomaly] = []
        self._loop = loop
        self._thread = threading.get_ident()
        loop.set_exception_handler(self._reached_the_loop)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record of the simulation's own thread."""
        if record.thread == self._thread:
            error = record.exc_info[1] if record.exc_info else None
            self._keep(current_node(), f"{record.name}: {record.getMessage()}", error)

    def _reached_the_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # Python 3.11 calls the handler outside of the callback's context.
        of = getattr(context.get("handle"), "_context", None)
        node = current_node() if of is None else of.run(current_node)
        self._keep(node, f"event loop: {context['message']}", context.get("exception"))

    def _keep(self, node: Node | None, text: str, error: BaseException | None) -> None:
        if node is not None and not node.alive:
            return  # its tasks unwind; the process that it stands for can log nothing
        if len(self.anomalies) < MAX_ERRORS:
            name = "world" if node is None else node.name
            cause = "" if error is None else f" ({_described(error)})"
            self.anomalies.append(Anomaly(INTERNAL_ERROR, name, f"at {self._loop.time() * 1000:.0f} ms: {text}{cause}"))


def _described(error: BaseException) -> str:
    """Return an exception's type, text, and the line that raised it."""
    raised = error.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    where = "" if raised is None else f", {raised.tb_frame.f_code.co_qualname}:{raised.tb_lineno}"
    return f"{error!r}{where}"


@contextlib.contextmanager
def collected(loop: SimulatedLoop) -> Iterator[InternalErrors]:
    """Collect the errors that are logged while the context lasts, even if `logging.disable` is in effect.

    The records of simulated brokers have virtual times and report intended faults: no other handler gets them.
    """
    errors = InternalErrors(loop)
    disabled = logging.root.manager.disable
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.handlers, logger.propagate, logger.level, logger.disabled) for logger in loggers]
    # Disabled below ERROR: a debug line of a simulated broker then costs no more than the question.
    logging.disable(logging.WARNING)
    for logger in loggers:
        logger.handlers, logger.propagate, logger.disabled = [errors], False, False
        logger.setLevel(logging.ERROR)
    try:
        yield errors
    finally:
        for logger, (handlers, propagate, level, was_disabled) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate, logger.disabled = handlers, propagate, was_disabled
            logger.setLevel(level)
        logging.disable(disabled)
