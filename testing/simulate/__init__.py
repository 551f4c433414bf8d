"""Your asyncio service in a simulation: a Kafka cluster, your code with its real client, and faults, in virtual time.

::

    from purgatorio.testing.simulate import World, simulate

    @simulate(seeds=200, faults=("kill", "pause", "partition"), topics={"orders": 3})
    async def test_each_order_is_billed_once(world: World) -> None:
        bills = world.store["bills"]
        world.service("billing", billing, world.bootstrap, bills, replicas=2)
        await world.produce("orders", 50)
        await world.settle()
        world.check("exactly-once", bills)

A seed decides when which broker or service is killed, paused or cut off, and how long each packet takes; the same seed
gives the same run. docs/simulate.md is the tour.
"""

from __future__ import annotations

from purgatorio.testing.simulate.decorator import simulate
from purgatorio.testing.simulate.errors import CheckFailed, OutsideSimulation, SimulationFailed
from purgatorio.testing.simulate.outcome import Outcome
from purgatorio.testing.simulate.store import Store, Table
from purgatorio.testing.simulate.world import World

__all__ = [
    "CheckFailed",
    "Outcome",
    "OutsideSimulation",
    "SimulationFailed",
    "Store",
    "Table",
    "World",
    "simulate",
]
