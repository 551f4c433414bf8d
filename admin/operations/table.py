"""All operations, in the order of the list of the HTTP API. A class in one of these files is in the table."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from purgatorio.admin.operations import (
    brokers,
    clock,
    faults,
    groups,
    network,
    purgatories,
    records,
    scenes,
    security,
    share_groups,
    snapshots,
    tier,
    topics,
    transactions,
    why,
)
from purgatorio.admin.operations.declare import Operation

_SUBJECTS: Final = (
    purgatories,
    why,
    brokers,
    topics,
    records,
    groups,
    share_groups,
    transactions,
    tier,
    faults,
    clock,
    network,
    snapshots,
    security,
)


def _of(*subjects: ModuleType) -> tuple[type[Operation], ...]:
    return tuple(
        each
        for subject in subjects
        for each in vars(subject).values()
        if isinstance(each, type) and issubclass(each, Operation) and each is not Operation
    )


OPERATIONS: Final = _of(*_SUBJECTS)
LEARNING: Final = _of(scenes)
"""Further operations of a cluster that was started by ``purgatorio learn``."""
