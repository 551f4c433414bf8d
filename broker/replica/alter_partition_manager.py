"""Submits the ISR changes that leaders propose to the metadata store, many in one change (KIP-497)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from purgatorio.broker.metadata.controller import InSyncProposal, TopicSettings, change_in_sync_sets
from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.replica.partition import Partition
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

PARTITIONS_NAMED: Final = 5
"""Partitions that a log line names at most."""

PROPOSALS_PER_CHANGE: Final = 500
"""The most proposals in one change: some milliseconds to decide, and as much to apply on each broker."""

SHRANK: Final = "ISR shrank"

Proposed = tuple[Partition, InSyncProposal]


class AlterPartitionManager:
    """Submits proposals, one change at a time; proposals that arrive meanwhile go into the next change.

    Args:
        store: this broker's access to the metadata store.
        settings: the defaults of topic configs.
        observer: counts the ISRs that shrank and expanded.

    Attributes:
        withdraw: ends a proposal that the store has committed or refused; the `ReplicaManager` sets it.
    """

    withdraw: Callable[[Partition, InSyncProposal], None]

    def __init__(self, store: MetadataStore, *, settings: TopicSettings, observer: ReplicaObserver) -> None:
        self._store = store
        self._settings = settings
        self._observer = observer
        self._waiting: list[Proposed] = []
        self._in_flight = False

    def propose(self, partition: Partition, proposal: InSyncProposal) -> None:
        """Submit a proposal. A partition has at most one proposal at a time, so the queue is bounded."""
        self._waiting.append((partition, proposal))
        if not self._in_flight:
            self._submit()

    def _submit(self) -> None:
        self._in_flight = True
        batch, self._waiting = self._waiting[:PROPOSALS_PER_CHANGE], self._waiting[PROPOSALS_PER_CHANGE:]
        incarnation = batch[0][0].incarnation
        proposals = [proposal for _, proposal in batch]
        before = [partition.isr for partition, _ in batch]
        self._store.submit(
            lambda image: change_in_sync_sets(image, incarnation, proposals, settings=self._settings),
            lambda codes: self._decided(incarnation, batch, before, codes),
            lambda error: self._failed(batch, error),
        )

    def _decided(
        self,
        incarnation: BrokerIncarnation,
        batch: list[Proposed],
        before: list[tuple[int, ...]],
        codes: tuple[ErrorCode, ...],
    ) -> None:
        outcomes: dict[str, list[Proposed]] = {}
        reasons: list[str] = []
        for proposed, isr, code in zip(batch, before, codes, strict=True):
            if code is ErrorCode.NONE:
                shrank = len(proposed[1].isr) < len(isr)
                (self._observer.isr_shrunk if shrank else self._observer.isr_expanded)()
                outcome = SHRANK if shrank else "ISR expanded"
                if shrank and len(reasons) < PARTITIONS_NAMED:
                    reasons.append(_why_shrunk(*proposed, isr))
            else:
                outcome = f"ISR change refused: {code.name}"
            outcomes.setdefault(outcome, []).append(proposed)
        # A line for each kind of outcome: one change may be of hundreds of partitions.
        for outcome, those in outcomes.items():
            named = (f"{partition.tp} {[m.broker_id for m in proposal.isr]}" for partition, proposal in those)
            logger.info(
                outcome,
                broker=incarnation.broker_id,
                count=len(those),
                partitions=", ".join(islice(named, PARTITIONS_NAMED)),
                **({"reason": "; ".join(reasons)} if outcome == SHRANK else {}),
            )
        self._settled(batch)

    def _failed(self, batch: list[Proposed], error: Exception) -> None:
        logger.warning("ISR changes failed", broker=batch[0][0].broker_id, count=len(batch), reason=str(error))
        self._settled(batch)

    def _settled(self, batch: list[Proposed]) -> None:
        """End the proposals: the image shows the committed ones, and leaders may propose the others again."""
        for partition, proposal in batch:
            self.withdraw(partition, proposal)
        self._in_flight = False
        if self._waiting:
            self._submit()


def _why_shrunk(partition: Partition, proposal: InSyncProposal, before: tuple[int, ...]) -> str:
    """Return what the leader knows of the followers that it has removed from the ISR `before`."""
    kept = {member.broker_id for member in proposal.isr}
    removed = [broker_id for broker_id in before if broker_id not in kept]
    return f"{partition.tp}: {', '.join(map(partition.why_behind, removed))}"
