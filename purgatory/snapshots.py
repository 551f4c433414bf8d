"""Snapshots of a purgatory's operations, for observers."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from .delayed_operation import (
    DelayedOperation,
    FinishedOperation,
    Outcome,
    causes_of,
    holders,
)


class ParkedOperation(NamedTuple):
    """One parked operation, for a page. Times are those of the purgatory's clock."""

    id: int
    purgatory: str
    keys: tuple[Hashable, ...]
    parked_ms: int
    deadline_ms: int
    checks: int
    client: str
    """The client that sent the request; empty if unknown."""
    causes: Sequence[Any]
    """The condition that it still misses; empty if the operation has no causes."""


class WatchListSnapshot(NamedTuple):
    """One watch list, for a page; `watched` also counts the tickets of completed operations."""

    key: Hashable
    watched: int


def parked(purgatory: str, operation: DelayedOperation) -> ParkedOperation:
    """Return a parked operation as observers see it."""
    return ParkedOperation(
        operation.id,
        purgatory,
        operation.keys,
        operation.parked_ms,
        operation.deadline_ms,
        operation.checks,
        operation.client,
        causes_of(operation),
    )


def ended(
    purgatory: str,
    operation: DelayedOperation,
    outcome: Outcome,
    *,
    done_ms: int,
    cause: str,
    event_key: Hashable | None,
    causes: Sequence[Any],
    error: str,
) -> FinishedOperation:
    """Return an operation that has ended as observers see it."""
    return FinishedOperation(
        operation.id,
        purgatory,
        operation.keys,
        operation.parked_ms,
        done_ms,
        operation.deadline_ms,
        outcome,
        cause,
        operation.checks,
        causes,
        error,
        operation.client,
        holders(operation),
        event_key,
    )
