"""The pytest plugin of Purgatorio: the fixture `kafka`, a cluster of brokers for each test that asks for it.

It lies outside the package, which pytest would otherwise import in every run; the cluster's code is imported by the
first test that wants a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from purgatorio.testing import Kafka

MARKER = "kafka"


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, for ``pytest --markers`` and ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        "kafka(brokers=3, racks=(), topics={}, **settings): the cluster of the fixture `kafka`; settings are Kafka's "
        "broker settings with underscores for dots, for example min_insync_replicas=2",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A fresh Kafka cluster of three brokers on free ports of this machine; `@pytest.mark.kafka(…)` changes it."""
    from purgatorio.testing import cluster

    with cluster(**_options(request)) as running:
        yield running


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return what the markers of the test, its class and its module ask for; the nearest one wins."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.kafka takes names only, for example brokers={marker.args[0]!r}")
        options.update(marker.kwargs)
    return options
