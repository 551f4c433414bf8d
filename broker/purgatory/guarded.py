"""Calls of an operation's own code whose exceptions reach neither the caller nor other operations."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from purgatorio.broker.purgatory.delayed_operation import DelayedOperation

_log = logging.getLogger(__name__)


def describe(operation: DelayedOperation) -> str:
    """Return the condition that it misses; after a failure, that: it must break neither a page nor an answer."""
    try:
        return operation.missing()
    except Exception as error:  # the operation is the user's code, here and below
        return f"unknown: {error!r}"


def holders(operation: DelayedOperation) -> tuple[Hashable, ...]:
    """Return the parties that it waits for; after a failure, which is logged, none."""
    try:
        return operation.held_by()
    except Exception:
        _log.exception("an operation failed in held_by")
        return ()


def answer_error(purgatory: str, operation: DelayedOperation, error: Exception) -> None:
    """Log an unexpected error, and answer it; if that fails too, the operation stays unanswered."""
    _log.error("%s operation %d on %r failed", purgatory, operation.id, operation.keys[:8], exc_info=error)
    try:
        operation.on_error(error)
    except Exception:
        _log.exception("%s operation %d could not answer its error", purgatory, operation.id)


def run_on_expiration(purgatory: str, operation: DelayedOperation) -> None:
    """Run `on_expiration`; the answer has been given."""
    try:
        operation.on_expiration()
    except Exception:
        _log.exception("%s operation %d failed in on_expiration", purgatory, operation.id)


def run_on_cancel(purgatory: str, operation: DelayedOperation) -> None:
    """Run `on_cancel`; the operation is out of its purgatory."""
    try:
        operation.on_cancel()
    except Exception:
        _log.exception("%s operation %d failed in on_cancel", purgatory, operation.id)
