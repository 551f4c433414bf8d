"""What a broker's settings say about transactions."""

from __future__ import annotations

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.txn.config import TransactionConfig


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """Return the settings of the transaction coordinator from the broker's configs."""
    return TransactionConfig(
        topic_partitions=config.transaction_state_log_num_partitions,
        topic_replication_factor=config.transaction_state_log_replication_factor,
        topic_min_isr=config.transaction_state_log_min_isr,
        max_timeout_ms=config.transaction_max_timeout_ms,
        version=config.transaction_version,
        max_ids=config.transaction_coordinator_max_ids,
        max_partitions=config.transaction_max_partitions,
        expiration_ms=config.transactional_id_expiration_ms,
        expiration_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
