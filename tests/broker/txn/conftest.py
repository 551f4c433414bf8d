"""What the tests of transactions share."""

from __future__ import annotations

import pytest

from tests.broker.txn.harness import TransactionHarness


@pytest.fixture
def broker() -> TransactionHarness:
    """Broker 1, which coordinates all transactional ids."""
    return TransactionHarness()
