"""Waiting for what no event tells."""

from __future__ import annotations

import pytest

from purgatorio.broker.cluster.decisions import until
from purgatorio.broker.cluster.errors import ClusterUnavailable


async def test_it_ends_when_the_condition_holds() -> None:
    looks = iter([False, False, True])
    await until(lambda: next(looks), "it is so")


async def test_it_gives_up_with_a_sentence() -> None:
    with pytest.raises(ClusterUnavailable, match=r"after 0\.002 s it is still not so that pigs fly"):
        await until(lambda: False, "pigs fly", time_limit_ms=2)
