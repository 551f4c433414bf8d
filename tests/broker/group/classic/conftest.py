"""Fixtures of the tests of classic groups."""

from __future__ import annotations

import pytest

from tests.broker.group.classic.harness import Clients


@pytest.fixture
def clients() -> Clients:
    """Broker 1 coordinates the group; an append is committed at once."""
    return Clients()


@pytest.fixture
def replicated() -> Clients:
    """Broker 1 coordinates the group; an append is committed when the test lets broker 2 fetch it."""
    return Clients(replicas=(1, 2))
