"""Time and randomness of the modules that services use, replaced while a simulation runs, and restored always.

Other threads keep the real ones. Not reached are default arguments, `datetime.now` (a service takes `World.now`
for it), and what modules of the standard library took by ``from time import time``.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from purgatorio.simulation.world.loop import START_SECONDS, WALL_START_MS, SimulatedClock, current_node
from purgatorio.simulation.world.network import name_of
from purgatorio.testing.simulate.loop import ServiceLoop
from purgatorio.testing.simulate.replacing import Place, replaced, with_taken_names

NODE_OF_UUID1: Final = 0x02_00_00_00_00_01
"""A locally administered address in place of the machine's."""
_SHARED: Final = getattr(random.getrandbits, "__self__", None)  # the generator behind the functions of the module
_STATE: Final = ("seed", "getstate", "setstate")


@contextmanager
def patched(loop: ServiceLoop, seed: int, streams: Callable[[str], random.Random]) -> Iterator[None]:
    """Replace time, randomness and what else would differ between two runs of a seed while the context lasts.

    Args:
        streams: return the seed's generator of one purpose.
    """
    state = random.getstate()
    with replaced({**with_taken_names(_times(loop)), **_draws(streams), **_uuids()}):
        random.seed(f"seed {seed}")
        try:
            yield
        finally:
            random.setstate(state)


def _times(loop: ServiceLoop) -> dict[Place, Callable[[], Any]]:
    """Return the clocks of the `time` module on virtual time, for this thread."""
    clock, thread = SimulatedClock(loop), threading.get_ident()

    def wall() -> float:
        return WALL_START_MS / 1000 + loop.time() - START_SECONDS

    def on_thread(read: Callable[[], float], real: Callable[[], Any], to: Callable[[float], Any]) -> Callable[[], Any]:
        return lambda: to(read()) if threading.get_ident() == thread else real()

    def nanoseconds(seconds: float) -> int:
        return round(seconds * 1_000_000) * 1_000

    faces = {"time": wall, "monotonic": clock.now_seconds, "perf_counter": clock.now_seconds}
    found: dict[Place, Callable[[], Any]] = {}
    for name, read in faces.items():
        found[time, name] = on_thread(read, getattr(time, name), float)
        found[time, f"{name}_ns"] = on_thread(read, getattr(time, f"{name}_ns"), nanoseconds)
    return found


def _draws(of_purpose: Callable[[str], random.Random]) -> dict[Place, Any]:
    """Return the functions of the `random` module and the sources of entropy, with a stream for each process.

    Other threads keep the real ones.
    """
    streams: dict[str, random.Random] = {}
    thread = threading.get_ident()

    def own() -> random.Random:
        name = name_of(current_node())
        found = streams.get(name)
        if found is None:
            found = streams[name] = of_purpose(f"draws of {name}")
        return found

    def draw(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*args: Any, **options: Any) -> Any:
            function = getattr(own(), name) if threading.get_ident() == thread else real
            return function(*args, **options)

        return drawn

    seed_of_random = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        unseeded = a is None and threading.get_ident() == thread
        seed_of_random(self, own().getrandbits(128) if unseeded else a, version)

    names = [name for name in random.__all__ if getattr(getattr(random, name), "__self__", None) is _SHARED]
    found: dict[Place, Any] = {
        (random, name): draw(name, getattr(random, name)) for name in names if name not in _STATE
    }
    found[random.Random, "seed"] = seeded
    found[os, "urandom"] = found[random, "_urandom"] = draw("randbytes", os.urandom)
    return found


def _uuids() -> dict[Place, Any]:
    """Return what makes `uuid.uuid1` a function of time and draws alone."""
    return {(uuid, "_generate_time_safe"): None, (uuid, "_last_timestamp"): None, (uuid, "_node"): NODE_OF_UUID1}
