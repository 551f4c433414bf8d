"""Python's collector of cyclic garbage, set so that it does not hold the event loop.

A request leaves no cyclic garbage (`tests/broker/test_no_cyclic_garbage.py` counts), so the collector finds next to
nothing in a broker. Its defaults start a pass at 700 new objects, which a few dozen requests in flight are, and every
hundredth pass visits all objects of the process: the event loop stands still for 20 to 150 ms.

`GarbageTuning` freezes what the start has made, so that no pass visits it, and lets many more objects come together
before a pass. It changes the whole process: the commands of `purgatorio` use it; `Cluster` only if it is asked to.

Records are no objects: their batches lie in blocks of memory (`purgatorio.broker.log.arena`), of which no pass visits
more than one reference for each.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from purgatorio.purgatory.clock import Alarm, Clock

RENEWAL_DELAY_MS: Final = 1_000
"""From the end of a broker to the collection of what it leaves: by then no task or answer refers to it any more."""
THRESHOLDS: Final = (10_000, 5, 100)
"""Objects before a pass over the youngest; such passes before one over the middle generation; such before a full one.

Measured: a pass visits 10,000 objects in 0.5 ms and 50,000 in 3 ms, on an idle core; 20,000 pipelined requests with
acks=all cause no pass (650 of the youngest and five full ones with the defaults); the creation of 3,000 partitions with
three replicas causes forty short ones and no full one, so that nothing is gained by freezing those partitions too."""

MANY_OBJECTS: Final = 10_000
"""More than this come from modules; a cluster makes a few thousand."""


@contextmanager
def paused(*, then_old: bool = False) -> Iterator[None]:
    """Let the collector rest, as while modules are imported, whose objects all stay: it takes a tenth of their time.

    Args:
        then_old: whether many objects that were made meanwhile count as old afterwards, with all others. The next pass
            over the youngest would visit each of them, which takes as long again, and free a megabyte. Without modules
            they are few, and may become garbage soon.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if then_old and gc.get_count()[0] > MANY_OBJECTS:
                _make_all_old()
            gc.enable()


def _make_all_old() -> None:
    """Put all objects into the oldest generation, without a look at them; nothing if the program has frozen some."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


class GarbageTuning:
    """Sets the collector of this process while a cluster runs in it: ``Cluster(config, garbage=GarbageTuning())``.

    It is for a process that the cluster has to itself, since it freezes the objects of all other code too.

    Args:
        shares_memory: whether the process was forked: a pass over what was frozen before the fork would copy it.
    """

    def __init__(self, *, shares_memory: bool = False) -> None:
        self._shares_memory = shares_memory
        self._before: tuple[int, int, int] | None = None
        self._renewal: Alarm | None = None

    def begin(self) -> None:
        """Freeze all objects of the process, and make passes rare. Takes a full pass, about 20 ms after the start."""
        if self._before is None:
            self._before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        self.renew()

    def renew(self) -> None:
        """Free what is garbage by now, frozen or not, as after the end of a broker; then freeze all objects again.

        A broker's objects refer to each other in cycles, and hold its logs: frozen, they would never be freed. This is
        a full pass, which holds the event loop: 20 ms, and with thousands of partitions 0.3 ms for 1,000 objects more.
        """
        if not self._shares_memory:
            gc.unfreeze()
        gc.collect()
        gc.freeze()

    def renew_soon(self, clock: Clock) -> None:
        """Call `renew` when nothing that is under way refers any more to a broker that has just ended."""
        self._cancel_renewal()
        self._renewal = clock.call_later(RENEWAL_DELAY_MS, self.renew)

    def _cancel_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def end(self) -> None:
        """Undo `begin`; does nothing without it."""
        self._cancel_renewal()
        if self._before is not None:
            gc.set_threshold(*self._before)
            if not self._shares_memory:
                gc.unfreeze()
            self._before = None
