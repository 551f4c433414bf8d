"""Services that the parts of one broker's transaction coordinator share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.broker.txn.config import TransactionConfig
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.producer_ids import ProducerIds
from purgatorio.late import dataclass
from purgatorio.purgatory import Purgatory, Timer
from purgatorio.purgatory.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionServices:
    """Services that the parts of one broker's transaction coordinator share.

    Attributes:
        clock: wall time of transactions, which outlives a coordinator.
        purgatory: "Transaction": requests that wait for the end of a transition.
        timeout_purgatory: "TransactionTimeout": the open transactions, until their deadline.
        work: takes the steps of what takes long.
    """

    config: TransactionConfig
    log: CoordinatorLog
    clock: Clock
    timer: Timer
    image: Callable[[], ClusterImage]
    producer_ids: ProducerIds
    ends: MarkerSender
    purgatory: Purgatory[Any]
    timeout_purgatory: Purgatory[Any]
    work: OwnWork
