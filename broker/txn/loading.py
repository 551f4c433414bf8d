"""How the records of ``__transaction_state`` make the transactional ids of a shard."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.txn.shard import TransactionShard
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.values import read_value
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.records import BatchHeader
from purgatorio.protocol.transaction_state import decode_key, decode_value

RECORD_WORK: Final = 5
"""The work of a record, in the unit of `WORK_PER_STEP`, beside its partitions."""
PARTITIONS_PER_WORK: Final = 5
"""The partitions of a record that count as 1."""


class TransactionReplay:
    """Applies records to one shard; the last one of each transactional id counts. Unknown types are skipped (KIP-915).

    Args:
        shard: the shard that is loaded.
    """

    def __init__(self, shard: TransactionShard) -> None:
        self._shard = shard

    def record(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply one record; returns its work.

        Raises:
            DecodeError: it is malformed.
        """
        transactional_id = None if key is None else decode_key(key)
        if transactional_id is None:
            return 1
        logged = decode_value(value)
        if logged is None:
            self._shard.transactions.pop(transactional_id, None)
            return 1
        read = read_value(logged)
        self._shard.transactions[transactional_id] = Transaction(transactional_id, read)
        return RECORD_WORK + len(read.partitions) // PARTITIONS_PER_WORK

    def ended(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Skip a marker: no client writes to this topic in a transaction."""
