from __future__ import annotations

import pytest

from tests.broker.replica.harness import Harness, topic


@pytest.fixture
def broker() -> Harness:
    """Broker 1, which leads orders-0 with followers 2 and 3."""
    harness = Harness()
    harness.set_topics(topic())
    return harness
