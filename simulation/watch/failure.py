"""Finds the moment at which a simulation failed: when its history, as far as it went, first had the anomaly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from purgatorio.simulation.checks.checkers import Anomaly, check
from purgatorio.simulation.checks.group_checkers import check_groups
from purgatorio.simulation.checks.share_checkers import check_shares
from purgatorio.simulation.checks.transaction_checkers import check_transactions
from purgatorio.simulation.history.history import History
from purgatorio.simulation.watch.recorder import Frame, Seen

MAX_FAILURES: Final = 10
"""The anomalies whose moments are looked for, each by some ten checks of a part of the history."""


class SeenAnomaly(NamedTuple):
    """An anomaly, and the simulation's time at which it was there first."""

    ms: int
    says: str


def failures(
    anomalies: Sequence[Anomaly], history: History, frames: Sequence[Frame], seen: Sequence[Seen]
) -> list[SeenAnomaly]:
    """Return when each of the first `MAX_FAILURES` anomalies was there first, the earliest first.

    An anomaly of the history comes up in the first frame by which a check of the history so far finds one of the same
    name in the same partition. Anomalies that came up while the simulation ran have their moment already.
    """
    known = {each.anomaly: each.ms for each in seen}
    first = _First(history, frames)
    return sorted(
        SeenAnomaly(known[each] if each in known else first.ms(each), str(each)) for each in anomalies[:MAX_FAILURES]
    )


class _First:
    """Looks for the first frame with an anomaly by halving."""

    def __init__(self, history: History, frames: Sequence[Frame]) -> None:
        self._history = history
        self._frames = frames
        self._found: dict[int, frozenset[tuple[str, str]]] = {}

    def ms(self, anomaly: Anomaly) -> int:
        place = anomaly.name, anomaly.partition
        low, high = 0, len(self._frames) - 1
        while low < high:
            middle = (low + high) // 2
            if place in self._at(middle):
                high = middle
            else:
                low = middle + 1
        return self._frames[low].ms

    def _at(self, frame: int) -> frozenset[tuple[str, str]]:
        if frame not in self._found:
            part = History()
            for event in self._history.part(0, self._frames[frame].events):
                part.record(event)
            checks: tuple[Callable[[History], list[Anomaly]], ...] = (
                check,
                check_groups,
                check_transactions,
                check_shares,
            )
            self._found[frame] = frozenset((each.name, each.partition) for find in checks for each in find(part))
        return self._found[frame]
