"""The last transaction of a transactional id, as `__transaction_state` keeps it, and the values that may follow it.

All here is pure: a request makes a new value of the old one, the value is appended, and takes effect when it is
committed. Epochs follow KIP-98, KIP-360, KIP-588 and KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.protocol.transaction_state import (
    TransactionLogValue,
    TransactionState,
    TransactionTopic,
    encode_key,
    encode_value,
)

NO_ID: Final = -1
"""The producer id of nobody."""
NO_EPOCH: Final = -1
"""The epoch of a producer that has none yet, and of one before it."""
NO_TIME: Final = -1
"""The start of a transaction that has not begun."""
LAST_EPOCH: Final = 32_766
"""The last epoch that a producer gets; the one above only fences it (KAFKA-18660). A new producer id follows."""
BUMPING_VERSION: Final = 2
"""The first transaction.version in which each end of a transaction raises the producer's epoch (KIP-890)."""

_STATES: Final = TransactionState
_IDLE: Final = frozenset({_STATES.EMPTY, _STATES.COMPLETE_COMMIT, _STATES.COMPLETE_ABORT})

TRANSITIONS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    **dict.fromkeys(
        sorted(_IDLE),
        # An abort without a transaction: clients of transaction.version 2 end what they do not know (KIP-890).
        frozenset({_STATES.EMPTY, _STATES.ONGOING, _STATES.PREPARE_ABORT, _STATES.DEAD}),
    ),
    _STATES.ONGOING: frozenset({_STATES.ONGOING, _STATES.PREPARE_COMMIT, _STATES.PREPARE_ABORT}),
    _STATES.PREPARE_COMMIT: frozenset({_STATES.COMPLETE_COMMIT}),
    _STATES.PREPARE_ABORT: frozenset({_STATES.COMPLETE_ABORT}),
    _STATES.DEAD: frozenset(),
}
"""From each state, those that may follow."""


class TransactionValue(NamedTuple):
    """The producer of a transactional id, and its last transaction.

    Attributes:
        producer_id, producer_epoch: those of the producer; while the transaction ends, those of its markers.
        last_epoch: the epoch before, whose holder may ask for `producer_epoch` once more; NO_EPOCH if it is fenced.
            It is not logged (KAFKA-20357).
        previous_id: the producer id before, if it was changed because epochs ran out.
        next_id: the producer id after this transaction, if epochs run out with it.
        partitions: those of the transaction; never changed in place.
        started_ms, updated_ms: wall times; `started_ms` is NO_TIME before the first transaction.
        version: the transaction.version of the transaction: from `BUMPING_VERSION` on its markers have an epoch that
            its records never had.
    """

    state: TransactionState = TransactionState.EMPTY
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_id: int = NO_ID
    next_id: int = NO_ID
    timeout_ms: int = 0
    partitions: Mapping[TopicPartition, None] = {}
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    version: int = 1

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open or being ended."""
        return self.state in _IDLE

    @property
    def is_decided(self) -> bool:
        """Whether the result is decided, and markers are being written."""
        return self.state is _STATES.PREPARE_COMMIT or self.state is _STATES.PREPARE_ABORT

    @property
    def is_commit(self) -> bool:
        """Whether the result is a commit, if there is one."""
        return self.state is _STATES.PREPARE_COMMIT or self.state is _STATES.COMPLETE_COMMIT

    @property
    def is_new(self) -> bool:
        """Whether the transactional id has no record yet."""
        return self.producer_epoch == NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch needs a new producer id."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def next_identity(self) -> tuple[int, int]:
        """Producer id and epoch of the next transaction."""
        return (self.producer_id, self.producer_epoch) if self.next_id == NO_ID else (self.next_id, 0)

    def initialised(self, timeout_ms: int, now_ms: int, *, new_id: int = NO_ID, keeps_last: bool) -> TransactionValue:
        """Return the value of a producer that begins with the next epoch.

        Args:
            now_ms: wall time.
            new_id: the producer id to change to; the epoch is 0 then.
            keeps_last: whether the holder of the epoch before may ask again: it has named it (KIP-360).
        """
        last = self.producer_epoch if keeps_last else NO_EPOCH
        if new_id != NO_ID:
            ids = (new_id, 0, min(last, LAST_EPOCH), NO_ID if self.is_new else self.producer_id)
        else:
            ids = (self.producer_id, self.producer_epoch + 1, last, self.previous_id)
        return self._empty(timeout_ms, now_ms, *ids)

    def repeated(self, timeout_ms: int, now_ms: int) -> TransactionValue:
        """Return the value of a producer that is given its id and epoch again: the answer was lost."""
        return self._empty(timeout_ms, now_ms, self.producer_id, self.producer_epoch, self.last_epoch, self.previous_id)

    def _empty(
        self, timeout_ms: int, now_ms: int, producer_id: int, epoch: int, last_epoch: int, previous_id: int
    ) -> TransactionValue:
        return TransactionValue(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_epoch=last_epoch,
            previous_id=previous_id,
            timeout_ms=timeout_ms,
            updated_ms=self._later(now_ms),
        )

    def with_partitions(self, added: Iterable[TopicPartition], now_ms: int, version: int) -> TransactionValue:
        """Return the value of the open transaction with more partitions; the first ones open it.

        Args:
            now_ms: wall time.
            version: the transaction.version that the producer uses.
        """
        now_ms = self._later(now_ms)
        is_open = self.state is _STATES.ONGOING
        return self._replace(
            state=_STATES.ONGOING,
            partitions={**self.partitions, **dict.fromkeys(added)} if is_open else dict.fromkeys(added),
            started_ms=self.started_ms if is_open else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def ended(self, commit: bool, now_ms: int) -> TransactionValue:
        """Return the value whose result is decided as the producer wants it, in transaction.version 1."""
        return self._decided(commit, now_ms)._replace(version=1)

    def ended_with_bump(self, commit: bool, now_ms: int, next_id: int = NO_ID) -> TransactionValue:
        """Return the value whose result is decided as the producer wants it, in transaction.version 2.

        The markers have the next epoch. The producer goes on with it, or with `next_id` if epochs run out.
        """
        return self._decided(commit, now_ms)._replace(
            producer_epoch=self.producer_epoch + 1,
            last_epoch=self.producer_epoch,
            next_id=next_id,
            version=BUMPING_VERSION,
        )

    def fenced(self, now_ms: int, *, keeps_last: bool) -> TransactionValue:
        """Return the value of an abort that the producer has not asked for: markers with the next epoch fence it.

        Without the bump late records of the producer would get in (KAFKA-6119).

        Args:
            now_ms: wall time.
            keeps_last: whether the producer may ask for the next epoch and go on (KIP-588).
        """
        return self._decided(False, now_ms)._replace(
            producer_epoch=self.producer_epoch + 1,
            last_epoch=self.producer_epoch if keeps_last else NO_EPOCH,
            version=BUMPING_VERSION if keeps_last else 1,
        )

    def _decided(self, commit: bool, now_ms: int) -> TransactionValue:
        now_ms = self._later(now_ms)
        return self._replace(
            state=_STATES.PREPARE_COMMIT if commit else _STATES.PREPARE_ABORT,
            partitions=self.partitions,
            started_ms=now_ms if self.started_ms == NO_TIME else self.started_ms,
            updated_ms=now_ms,
        )

    def completed(self, now_ms: int) -> TransactionValue:
        """Return the value of the transaction whose markers are all written."""
        producer_id, epoch = self.next_identity
        return self._replace(
            state=_STATES.COMPLETE_COMMIT if self.is_commit else _STATES.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            previous_id=self.previous_id if self.next_id == NO_ID else self.producer_id,
            next_id=NO_ID,
            partitions={},
            updated_ms=self._later(now_ms),
        )

    def _later(self, now_ms: int) -> int:
        """Return the time, which never goes back from one value to the next (KAFKA-5415)."""
        return max(now_ms, self.updated_ms)


def encode_record(transactional_id: str, value: TransactionValue) -> NewRecord:
    """Return the record of a value.

    Raises:
        EncodeError: the id is longer than 32767 bytes.
    """
    logged = TransactionLogValue(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_id,
        next_producer_id=value.next_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.timeout_ms,
        transaction_status=value.state,
        transaction_partitions=None
        if value.state is _STATES.EMPTY
        else [TransactionTopic(topic=topic, partition_ids=ids) for topic, ids in by_topic(value.partitions).items()],
        transaction_last_update_timestamp_ms=value.updated_ms,
        transaction_start_timestamp_ms=value.started_ms,
        client_transaction_version=value.version,
    )
    return NewRecord(encode_key(transactional_id), encode_value(logged))


def read_value(logged: TransactionLogValue) -> TransactionValue:
    """Return the value of a record, decoded.

    The epoch before is not in it. It is known all the same where a transaction ended with an epoch of its own: its
    producer may have lost the answer (KAFKA-20357).
    """
    state = TransactionState(logged.transaction_status)
    epoch = logged.producer_epoch
    last_epoch = NO_EPOCH
    if logged.client_transaction_version >= BUMPING_VERSION and state in _ENDED_WITH_BUMP:
        last_epoch = epoch - 1 if epoch > 0 else LAST_EPOCH
    return TransactionValue(
        state,
        logged.producer_id,
        epoch,
        last_epoch,
        logged.previous_producer_id,
        logged.next_producer_id,
        logged.transaction_timeout_ms,
        {
            TopicPartition(each.topic, partition): None
            for each in logged.transaction_partitions or ()
            for partition in each.partition_ids
        },
        logged.transaction_start_timestamp_ms,
        logged.transaction_last_update_timestamp_ms,
        logged.client_transaction_version,
    )


_ENDED_WITH_BUMP: Final = frozenset(
    {_STATES.PREPARE_COMMIT, _STATES.PREPARE_ABORT, _STATES.COMPLETE_COMMIT, _STATES.COMPLETE_ABORT}
)
