"""The interface for observers of a simulation. They change nothing: the history is the same with and without them."""

from __future__ import annotations

from typing import NamedTuple

from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.history.history import History
from purgatorio.simulation.world.cluster import SimulatedCluster


class Watched(NamedTuple):
    """A simulation that is about to run.

    Attributes:
        anomalies: lists that grow when something is found while it runs.
    """

    cluster: SimulatedCluster
    history: History
    anomalies: tuple[list[Anomaly], ...]
