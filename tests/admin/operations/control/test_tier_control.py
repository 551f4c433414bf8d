"""Tests of the operations on the tier that need no running cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.operations.control import tier_control
from purgatorio.admin.operations.control.tier_control import PARTITION_COST, SEGMENT_COST, partitions_in_tier
from purgatorio.broker.time.long_work import Steps
from tests.broker.replica.tiered import tiered


async def test_the_strips_of_a_topic_are_found_in_steps_that_cost_by_their_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs: list[int] = []

    async def take(steps: Steps) -> None:
        costs.extend(steps)

    async with tiered() as broker:
        replica = tier_control._Replica(_a(broker_id=1), broker.tiering, broker.partition())
        monkeypatch.setattr(tier_control, "_of_topic", lambda cluster, topic: [replica] * 2)
        answer = await partitions_in_tier(_a(work=_a(take=take)), "orders", 0)
    assert [row["segment_count"] for row in answer["partitions"]] == [3, 3]
    assert costs == [PARTITION_COST + 3 * SEGMENT_COST] * 2


def _a(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)
