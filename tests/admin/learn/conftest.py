"""A cluster on real sockets on which scenes are played, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from purgatorio.admin.cli.main import LEARNING
from purgatorio.admin.cluster import Cluster
from purgatorio.admin.learn.lessons import SceneLessons
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.operator import Operator
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.time.movable_clock import MovableClock


@dataclass
class Taught:
    """A cluster with its scenes."""

    cluster: Cluster
    operator: Operator
    lessons: SceneLessons


@pytest.fixture
async def taught() -> AsyncIterator[Taught]:
    config = load_cluster_config(defaults={**LEARNING, "port": "0", "admin_port": "0"})
    async with Cluster(config, MovableClock(), admin=False) as cluster:
        operator = Operator(cluster, ClusterControl(cluster))
        lessons = SceneLessons()
        lessons.take(operator)
        yield Taught(cluster, operator, lessons)
        await lessons.close()
        await operator.control.close()
