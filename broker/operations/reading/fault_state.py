"""Fault rules as the page shows them."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.layers.faults import AnyLive, FiredFault
from purgatorio.broker.operations.reading import document

FAULTS: Final = 20
"""The newest rules, as many as the page shows."""
FIRED: Final = 8
"""The faults that fired last, as many as the page shows."""


def fault_row(live: AnyLive) -> document.FaultRule:
    """Return a rule with its counts."""
    return {
        "id": live.id,
        "text": str(live.rule),
        "matched": live.matched,
        "fired": live.fired,
        "held": live.held,
        "spent": live.is_spent,
    }


def fired_row(fired: FiredFault) -> document.FiredFault:
    """Return a fault that fired."""
    return {
        "nth": fired.nth,
        "at_ms": fired.at_ms,
        "rule": fired.rule,
        "broker": fired.broker,
        "api": fired.api,
        "client": fired.client,
        "partitions": list(fired.partitions),
        "action": fired.action,
    }
