"""Records what the page would have shown of a simulation, moment by moment, without being a part of it.

The recorder looks at the cluster between two turns of the simulated loop: it has no task and no timer, and takes no
random number, so that a history is the same with and without it.
"""

from __future__ import annotations

import json
import zlib
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.matrix import read_matrix
from purgatorio.admin.operations.reading.members import read_connections
from purgatorio.admin.operations.reading.state import read_state
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.layers.faults import FaultRegistry
from purgatorio.broker.node.broker import Broker
from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.history.history import Fault, LeaderElected
from purgatorio.simulation.watched import Watched
from purgatorio.simulation.world.cluster import SimulatedCluster

FRAME_MS: Final = 200
"""The virtual time between two frames, as the page asks a living cluster; each fault and each election has one, too."""
MAX_FRAMES: Final = 2_000
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""The compressed frames that are kept: beyond that, every second one of the older half goes."""
OPERATIONS: Final = 40
"""The parked operations of each purgatory, as the page asks for them."""
CONNECTIONS: Final = 100


class Frame(NamedTuple):
    """One moment.

    Attributes:
        ms: the simulation's time.
        events: the length of the history by then.
        packed: what the page asks for, by the name of its route, as compressed JSON.
    """

    ms: int
    events: int
    packed: bytes

    def answers(self) -> dict[str, Answer]:
        """Return what the page asks for, by the name of its route."""
        unpacked: dict[str, Answer] = json.loads(zlib.decompress(self.packed))
        return unpacked


class Seen(NamedTuple):
    """An anomaly that came up while the simulation ran, and when."""

    anomaly: Anomaly
    ms: int


class Recorder:
    """Records a simulation; give its `watch` to `simulate`.

    Attributes:
        frames: what was recorded, oldest first: at most `MAX_FRAMES` of at most `MAX_FRAME_BYTES` together.
        seen: the anomalies that came up while it ran.
    """

    def __init__(self, name: str) -> None:
        self.frames: list[Frame] = []
        self.seen: list[Seen] = []
        self._name = name
        self._bytes = 0
        self._next_ms = 0
        self._events = 0
        self._known: list[int] = []

    def watch(self, watched: Watched) -> None:
        """Record from now on."""
        self._watched = watched
        self._known = [0] * len(watched.anomalies)
        self._reader = _Reader(watched.cluster, self._name)
        watched.cluster.loop.after_turn = self._after_turn

    def _after_turn(self) -> None:
        now_ms = self._watched.cluster.clock.now_ms()
        if self._news(now_ms) or now_ms >= self._next_ms:
            self._next_ms = now_ms + FRAME_MS
            self._keep(Frame(now_ms, self._events, self._reader.packed()))

    def _news(self, now_ms: int) -> bool:
        """Whether this turn had a fault, an election or an anomaly."""
        news = False
        if len(self._watched.history) > self._events:
            fresh = self._watched.history.part(self._events, len(self._watched.history))
            self._events += len(fresh)
            news = any(isinstance(event, (Fault, LeaderElected)) for event in fresh)
        for nth, anomalies in enumerate(self._watched.anomalies):
            if len(anomalies) > self._known[nth]:
                self.seen += (Seen(each, now_ms) for each in anomalies[self._known[nth] :])
                self._known[nth] = len(anomalies)
                news = True
        return news

    def _keep(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._bytes += len(frame.packed)
        while len(self.frames) > max(2, MAX_FRAMES) or (self._bytes > MAX_FRAME_BYTES and len(self.frames) > 2):
            thinned = self.frames[1 : len(self.frames) // 2 + 1 : 2]
            del self.frames[1 : len(self.frames) // 2 + 1 : 2]
            self._bytes -= sum(len(each.packed) for each in thinned)


class _Reader:
    """Reads a simulated cluster as the page's routes read a living one. It has what they ask of `BrokerCluster`."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster_id = name
        self.clock = cluster.clock
        self.network = _Network(cluster)
        self.faults = FaultRegistry(cluster.clock)
        self._cluster = cluster
        self._read = cast("BrokerCluster", self)
        self._control = ClusterControl(self._read)
        self._groups = GroupControl(self._read, lambda: self._control.image)
        self._transactions = TransactionControl(self._read, lambda: self._control.image)

    @property
    def brokers(self) -> list[Broker]:
        return list(self._cluster.brokers.values())

    @property
    def broker_ids(self) -> list[int]:
        return self._cluster.broker_ids

    def packed(self) -> bytes:
        """Return all that the page asks for now."""
        brokers = self.brokers
        answers: dict[str, Any] = {
            "state": read_state(self._read, self._control, self._groups, self._transactions, operations=OPERATIONS),
            "matrix": read_matrix(self._read, self._control.image),
            "connections": {
                "connections": list(islice(read_connections(brokers, CONNECTIONS), CONNECTIONS)),
                "connection_count": sum(broker.metrics.connections for broker in brokers),
            },
        }
        return zlib.compress(json.dumps(answers, separators=(",", ":")).encode(), 3)


class _Network:
    """Returns which simulated brokers stand still, and which do not reach each other."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    @property
    def paused(self) -> list[int]:
        return [broker_id for broker_id, node in self._cluster.nodes.items() if node.paused]

    def cut_off_from(self, broker_id: int) -> list[int]:
        nodes, network = self._cluster.nodes, self._cluster.network
        if broker_id not in nodes:
            return []
        own = nodes[broker_id].name
        return [
            other
            for other, node in nodes.items()
            if other != broker_id and (network.is_cut(own, node.name) or network.is_cut(node.name, own))
        ]
