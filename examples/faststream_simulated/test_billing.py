"""The service is killed at times that a seed decides: is each order billed in the end?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import os

import pytest
from billing import run, run_broken

from purgatorio.testing.simulate import SimulationFailed, World, simulate

SEEDS = int(os.environ.get("SEEDS", "10"))
WORLD = {"faults": ["kill"], "topics": {"orders": 3}}
QUIET_SECONDS = 3
"""Longer than the two seconds that an order is worked on: it may be committed before."""


@pytest.mark.xfail(strict=True, raises=SimulationFailed, reason="it commits orders that are not billed yet")
@simulate(seeds=200, **WORLD)
async def test_the_default_bills_each_order(world: World) -> None:
    """Its first seed that fails tells the faults and the order that is missing."""
    bills = world.store["bills"]
    world.service("billing", run_broken, world.bootstrap_servers, bills)
    await world.produce("orders", 8)
    await world.settle(quiet_seconds=QUIET_SECONDS)
    world.check("exactly-once", bills)


@simulate(seeds=SEEDS, **WORLD)
async def test_the_fix_bills_each_order(world: World) -> None:
    """``SEEDS=200 pytest`` runs more of them."""
    bills = world.store["bills"]
    world.service("billing", run, world.bootstrap_servers, bills)
    await world.produce("orders", 8)
    await world.settle(quiet_seconds=QUIET_SECONDS)
    world.check("exactly-once", bills)
