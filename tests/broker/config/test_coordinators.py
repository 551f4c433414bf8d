"""The limits of coordinators are settings of the broker."""

from __future__ import annotations

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.room_settings import group_config, transaction_config


def test_the_limits_of_groups_and_transactions_can_be_set() -> None:
    config = BrokerConfig(
        group_coordinator_max_groups=1,
        group_coordinator_max_offsets=2,
        group_coordinator_memory_max_bytes=5,
        transaction_coordinator_max_ids=3,
        transaction_max_partitions=4,
    )
    groups, transactions = group_config(config), transaction_config(config)
    assert (groups.max_groups, groups.max_offsets, groups.max_memory_bytes) == (1, 2, 5)
    assert (transactions.max_ids, transactions.max_partitions) == (3, 4)
