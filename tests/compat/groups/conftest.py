"""Clusters for groups, and how each client's member is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.compat.conftest import RunningCluster, running_cluster
from tests.compat.groups.harness import Members
from tests.compat.programs import Programs

PROGRAMS = Path(__file__).parent / "members"
SESSION_MS: Final = 1_500
"""A killed member is missed for this long; Kafka lets no member ask for less than 6 s."""

Start = Callable[..., Members]


def _settings() -> dict[str, object]:
    return {"group_min_session_timeout_ms": SESSION_MS}


@pytest.fixture(scope="session")
def groups_cluster() -> Iterator[RunningCluster]:
    """A cluster that allows short sessions."""
    with running_cluster(**_settings()) as running:
        yield running


@pytest.fixture
def own_cluster() -> Iterator[RunningCluster]:
    """A cluster of its own for a test that kills brokers."""
    with running_cluster(**_settings()) as running:
        yield running


@pytest.fixture
def members_of(topic: str) -> Iterator[Start]:
    """Makes the members of a group in a cluster; they do not outlive the test."""
    with ExitStack() as stack:

        def make(cluster: RunningCluster, session_ms: int = SESSION_MS) -> Members:
            members = Members(cluster.bootstrap, topic, session_ms)
            stack.callback(members.close)
            return members

        yield make


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The commands that start members."""
    return Programs(PROGRAMS, "member", tmp_path_factory.mktemp("members"))
