"""A broker that answers Produce and ListGroups, for the tests of what quotas do to requests."""

from __future__ import annotations

import pytest

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.list_groups import ListGroupsResponse
from purgatorio.protocol.messages.produce import ProduceResponse
from tests.broker.layers.quotas.harness import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply(ProduceResponse())
    broker.handle[ApiKey.LIST_GROUPS] = lambda reply, request: reply(ListGroupsResponse())
    return broker
