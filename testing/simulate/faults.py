"""Faults: a plan that is drawn from the seed before the run, and what carries it out.

The plan is data, so that a run can be repeated with fewer or shorter faults. A fault names its target by a number
between 0 and 1, which picks among the brokers or the processes of services that exist at its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from purgatorio.late import dataclass
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.testing.simulate.journal import Journal
from purgatorio.testing.simulate.names import no_such
from purgatorio.testing.simulate.service import Process

BUSY_SECONDS: Final = (0.2, 2.0)
QUIET_SECONDS: Final = (4.0, 12.0)
"""Long enough for a group to become stable between two faults, so that a member loses a partition and regains it."""
PAUSES_BETWEEN_SECONDS: Final = (BUSY_SECONDS, QUIET_SECONDS)
"""The ranges of the time from one fault to the next; a seed has one of them."""
HOLD_SECONDS: Final = (0.1, 3.0)
"""The range of the time until a fault is undone: a killed process starts again, a link heals."""
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of a plan.

    Attributes:
        at_seconds: when, in virtual seconds since the scenario began.
        kind: a name of `KINDS`.
        aim: picks the target, from 0 to 1.
        seconds: how long it lasts.
    """

    at_seconds: float
    kind: str
    aim: float
    seconds: float


Plan = tuple[PlannedFault, ...]


def draw_plan(streams: Callable[[str], random.Random], kinds: Sequence[str], seconds: float) -> Plan:
    """Draw the faults of so many virtual seconds; none without kinds.

    Args:
        streams: return the seed's generator of one purpose.
    """
    rng = streams("faults")
    pause_seconds = streams("pauses").choice(PAUSES_BETWEEN_SECONDS)
    plan = []
    at_seconds = rng.uniform(*BUSY_SECONDS)  # a quiet seed has a fault soon, too
    while kinds and at_seconds < seconds:
        fault = PlannedFault(
            round(at_seconds, 3), rng.choice(kinds), round(rng.random(), 3), round(rng.uniform(*HOLD_SECONDS), 3)
        )
        plan.append(fault)
        at_seconds += rng.uniform(*pause_seconds)
    return tuple(plan)


def checked_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return these kinds of faults.

    Raises:
        ValueError: there is no such kind.
    """
    if isinstance(kinds, str):
        raise ValueError(f"faults is a list of kinds: faults=[{kinds!r}]")
    kinds = tuple(kinds)
    for kind in kinds:
        if kind not in KINDS:
            raise no_such("fault", kind, KINDS)
    return kinds


class Faults:
    """Carries out a plan.

    Args:
        processes: returns the processes of all services.
    """

    def __init__(self, cluster: SimulatedCluster, processes: Callable[[], list[Process]], journal: Journal) -> None:
        self._cluster = cluster
        self._processes = processes
        self._journal = journal
        self._over = asyncio.Event()
        self._busy: set[str] = set()  # targets that have a fault now; never walked
        self._cuts: list[tuple[str, str]] = []

    async def run(self, plan: Plan) -> None:
        """Carry out a plan; each fault is undone when this returns."""
        async with asyncio.TaskGroup() as running:
            for fault in plan:
                running.create_task(self._run(fault), name=f"{fault.kind} at {fault.at_seconds:g} s")

    def end(self) -> None:
        """Undo the faults that last, and begin no others."""
        self._over.set()

    async def _run(self, fault: PlannedFault) -> None:
        await self._hold(fault.at_seconds)
        if self._over.is_set():
            return
        target = self._target(fault.aim)
        if target is None:
            return
        self._busy.add(target)
        try:
            await KINDS[fault.kind](self, target, fault.seconds)
        finally:
            self._busy.discard(target)

    async def _hold(self, seconds: float) -> None:
        """Wait so long, or until all faults end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def _note(self, target: str, text: str) -> None:
        self._journal.record(target, "fault", text)

    # --- targets ---

    def _target(self, aim: float) -> str | None:
        """Return the target that a number picks: a broker in the lower half, a service in the upper one."""
        brokers = [_broker_name(broker_id) for broker_id in self._cluster.broker_ids]
        services = [process.name for process in self._processes()]
        chosen = brokers if aim < 0.5 or not services else services
        nth = int(aim * 2 % 1 * len(chosen))
        free = [name for name in chosen[nth:] + chosen[:nth] if name not in self._busy]
        return free[0] if free else None

    def _broker_id(self, target: str) -> int | None:
        ids = {_broker_name(broker_id): broker_id for broker_id in self._cluster.broker_ids}
        return ids.get(target)

    def _process(self, target: str) -> Process:
        return next(process for process in self._processes() if process.name == target)

    # --- kinds ---

    async def kill(self, target: str, seconds: float) -> None:
        """Kill a process (SIGKILL), and start it again after a while.

        A broker is killed only if every partition keeps a running replica with all records, since a broker loses its
        logs with its process: the fault waits for that, or is left out.
        """
        broker_id = self._broker_id(target)
        if broker_id is None:
            process = self._process(target)
            if process.node is None:
                return
            self._note(target, "is killed")
            process.kill()
            await self._hold(seconds)
            process.start()
        elif await self._may_lose(broker_id, seconds):
            self._note(target, "is killed")
            self._cluster.kill_broker(broker_id)
            await self._hold(seconds)
            self._note(target, "starts")
            await self._cluster.start_broker(broker_id)

    async def _may_lose(self, broker_id: int, seconds: float) -> bool:
        left = int(seconds / LOOK_SECONDS)
        while not self._cluster.may_lose_logs(broker_id) and left > 0 and not self._over.is_set():
            left -= 1
            await self._hold(LOOK_SECONDS)
        return self._cluster.may_lose_logs(broker_id) and not self._over.is_set()

    async def pause(self, target: str, seconds: float) -> None:
        """Stop a process from running for a while (SIGSTOP)."""
        broker_id = self._broker_id(target)
        node = self._process(target).node if broker_id is None else self._cluster.nodes.get(broker_id)
        if node is None:
            return
        self._note(target, "is paused")
        node.pause()
        await self._hold(seconds)
        self._note(target, "runs again")
        node.resume()

    async def partition(self, target: str, seconds: float) -> None:
        """Cut a process off from all others for a while; brokers still reach the metadata store."""
        others = [_broker_name(broker_id) for broker_id in self._cluster.broker_ids]
        others += [process.name for process in self._processes()]
        self._note(target, "is cut off")
        network = self._cluster.network
        pairs = [pair for other in others if other != target for pair in ((target, other), (other, target))]
        self._cuts += pairs
        for source, to in pairs:
            network.cut(source, to)
        await self._hold(seconds)
        self._note(target, "is reached again")
        for source, to in pairs:
            self._cuts.remove((source, to))
            if (source, to) not in self._cuts:
                network.heal(source, to)


def _broker_name(broker_id: int) -> str:
    return f"broker-{broker_id}"


KINDS: Final[dict[str, Callable[[Faults, str, float], Coroutine[Any, Any, None]]]] = {
    "kill": Faults.kill,
    "pause": Faults.pause,
    "partition": Faults.partition,
}
