"""A simulated transactional producer: the requests of one instance with its transactional id, and their errors.

It follows the protocol of transaction.version 1 or 2 (KIP-890), as its request versions say; brokers distinguish the
two by nothing else. With version 1 the end of a transaction keeps the epoch, so that a request which was lost on its
way, and arrives in the next transaction, belongs to that: it would end it, or commit old offsets in it. Kafka cannot
detect it (Jepsen, Bufstream 0.1.0). So after such a loss this producer gets a new epoch before it goes on.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.client import FAILURES, NETWORK_ERRORS, Coordinator, Unavailable
from purgatorio.client.group import GroupMembership
from purgatorio.client.produce import ALL_REPLICAS
from purgatorio.client.transaction import AGAIN, TransactionalId, code_of
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.plans import FENCED, NOT_DONE, REQUEST_TIMEOUT_MS, TransactionPlan, Value
from purgatorio.simulation.history.history import (
    OffsetCommitted,
    Sent,
    TxnBegan,
    TxnCommitting,
    TxnEnded,
    TxnInit,
    TxnWrote,
)

DELIVERY_TIMEOUT_MS: Final = 4_000

SentCounts = dict[TopicPartition, "itertools.count[int]"]
"""By partition, counts the values that a client has sent."""


class Fenced(Exception):
    """Another instance has the transactional id, or the transaction timed out: this instance is at its end."""


class MustAbort(Exception):
    """The transaction cannot be committed."""


@dataclass(slots=True)
class _Open:
    """The transaction that is open, and its commits of offsets: each as `OffsetCommitted` but for its outcome."""

    number: int
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    offsets: list[tuple[str, str, int, str, int, int]] = field(default_factory=list)


class TransactionalProducer(TransactionalId):
    """One instance of a producer with a transactional id.

    Args:
        numbers: gives each transaction its number.
        sent: the counts of the values sent, by the instance before in the same client, and for the next one.
    """

    _client: Client

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        plan: TransactionPlan,
        numbers: Iterator[int],
        sent: SentCounts | None = None,
    ) -> None:
        super().__init__(client, transactional_id, timeout_ms=plan.timeout_ms, answer_timeout_ms=REQUEST_TIMEOUT_MS)
        client.versions = plan.versions.by_api
        self._adds_partitions = plan.versions.adds_partitions
        self._numbers = numbers
        self._must_init = True
        self._open: _Open | None = None
        self.sent: SentCounts = {} if sent is None else sent

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open is not None

    # --- begin ---

    async def begin(self) -> int:
        """Begin a transaction, and return its number.

        Raises:
            Fenced: another instance has a later epoch.
        """
        if self._must_init:
            code = await self.initialize()
            if code is not ErrorCode.NONE:
                raise Fenced(code.name)
            self._must_init = False
            self._client.record(TxnInit, self._client.name, self.name, *self.producer)
        self._open = _Open(next(self._numbers))
        number = self._open.number
        self._client.record(TxnBegan, self._client.name, self.name, number, *self.producer)
        return number

    # --- records ---

    async def send(self, to: Mapping[Output, list[Value]]) -> None:
        """Send values to partitions, a batch to each, all at a time.

        Raises:
            MustAbort: some were not written.
        """
        if self._adds_partitions:
            await self._add([output.tp for output in to])
        sends = [self._send(output, values) for output, values in to.items()]
        results = await asyncio.gather(*sends, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _add(self, partitions: list[TopicPartition]) -> None:
        assert self._open is not None
        new = [tp for tp in partitions if tp not in self._open.partitions]
        if not new:
            return
        code = await self.add(new)
        if code is not ErrorCode.NONE:
            self._refused(code)
        self._open.partitions.update(dict.fromkeys(new))

    def _refused(self, code: ErrorCode) -> None:
        """Raise what a refusal means for the transaction; a batch that was given up leaves a gap in its epoch."""
        self._must_init = self._must_init or self._adds_partitions
        raise MustAbort(code.name)

    async def _send(self, output: Output, values: list[Value]) -> None:
        assert self._open is not None
        client, tp = self._client, output.tp
        sent = self.sent.setdefault(tp, itertools.count())
        for each in values:
            client.record(TxnWrote, self._open.number, output.name, each.value, *each.source)
            client.record(Sent, client.name, output.name, each.value, next(sent))
        sequence = self.next_sequence(tp, len(values))
        numbers, wall_ms = [each.value for each in values], client.clock.wall_ms()
        batch = output.batch(numbers, wall_ms, producer=self.producer, sequence=sequence, transactional=True)
        code = await client.deliver(
            output,
            numbers,
            lambda: batch,
            client.clock.now_ms() + DELIVERY_TIMEOUT_MS,
            acks=ALL_REPLICAS,
            transactional_id=self.name,
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        if code is not ErrorCode.NONE:
            self._refused(code)

    # --- offsets ---

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], me: GroupMembership) -> None:
        """Send offsets that the transaction commits.

        Raises:
            MustAbort: they were refused.
        """
        assert self._open is not None
        if self._adds_partitions:
            code = await self.add_offsets(me.group)
            if code is not ErrorCode.NONE:
                self._refused(code)
        asked_ms = self._client.clock.now_ms()
        who = me.group, me.identity, me.generation
        self._open.offsets += [(*who, str(tp), offset, asked_ms) for tp, offset in offsets.items()]
        await self._commit_offsets(offsets, me)

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, int], me: GroupMembership) -> None:
        request = self.offset_commit(me, offsets)
        coordinator = Coordinator(self._client, me.group, timeout_ms=REQUEST_TIMEOUT_MS)
        give_up_ms = self._client.clock.now_ms() + DELIVERY_TIMEOUT_MS
        while True:
            code = ErrorCode.NETWORK_EXCEPTION
            try:
                answer = await coordinator.ask(request)
            except FAILURES:
                self._must_init = self._must_init or self._adds_partitions
            else:
                code = code_of(answer)
            if code is ErrorCode.NONE:
                return
            if code not in AGAIN or self._client.clock.now_ms() >= give_up_ms:
                self._refused(code)
            coordinator.forget()
            await self._client.back_off()

    # --- end ---

    async def commit(self) -> None:
        """Commit the transaction.

        Raises:
            MustAbort: it was not committed, or that is not known; it is over all the same.
            Fenced: likewise, and so is this instance.
        """
        assert self._open is not None
        self._client.record(TxnCommitting, self._open.number)
        await self._end(committed=True)

    async def abort(self) -> None:
        """Abort the transaction.

        Raises:
            Fenced: it is aborted, and this instance is at its end.
        """
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        """Ask for the end until the coordinator takes or refuses it, and record the outcome."""
        request = self.end_request(committed=committed)
        doubtful = False
        try:
            while True:
                code = ErrorCode.NETWORK_EXCEPTION
                try:
                    answer = await self.coordinator.ask(request)
                    code = ErrorCode(answer.error_code)
                except Unavailable:
                    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # nothing was sent
                except NETWORK_ERRORS:
                    self._must_init = self._must_init or self._adds_partitions
                if code not in AGAIN:
                    break
                doubtful = doubtful or code not in NOT_DONE
                await self.retry(code)
        except BaseException:
            # Also if this client is killed: its request may still arrive.
            self._over("unknown" if committed else "aborted")
            raise
        if code is ErrorCode.NONE:
            self._over("committed" if committed else "aborted")
            if not self._adds_partitions:
                self.take((answer.producer_id, answer.producer_epoch))
            return
        self._over("unknown" if committed and doubtful else "aborted")
        self._must_init = True
        if code in FENCED:
            raise Fenced(code.name)
        if committed:
            raise MustAbort(code.name)

    def _over(self, outcome: str) -> None:
        assert self._open is not None
        self._client.record(TxnEnded, self._open.number, outcome)
        known = {"committed": "acked", "aborted": "refused", "unknown": "unknown"}[outcome]
        for told in self._open.offsets:
            self._client.record(OffsetCommitted, *told, known)
        self._open = None

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
