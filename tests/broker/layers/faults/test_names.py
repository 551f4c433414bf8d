"""The name nearest to a wrong one."""

from __future__ import annotations

from purgatorio.broker.layers.faults.names import MAX_COMPARED_CHARS, nearest


def test_the_nearest_name_is_proposed() -> None:
    assert nearest("order", ["payments", "orders"]) == "; did you mean orders?"
    assert nearest("order", ["payments"]) == ""


def test_a_very_long_name_is_compared_with_none() -> None:
    """Two ids of 32 KiB, which clients choose, take seconds."""
    assert nearest("x" * MAX_COMPARED_CHARS, ["x" * (MAX_COMPARED_CHARS - 1)])
    assert nearest("x" * 32_000, ["x" * 32_001]) == ""
