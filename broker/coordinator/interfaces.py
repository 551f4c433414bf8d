"""What coordinators and leaders ask of each other, without knowing each other's rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.verification import VerifyPartitions
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.end_marker import EndMarker

__all__ = ["AskBroker", "EndOffsets", "VerifyPartitions"]


class AskBroker(Protocol):
    """Sends a request to another broker (see `purgatorio.broker.server.peers.Peers.send`)."""

    def __call__(
        self,
        broker_id: int,
        api_key: ApiKey,
        version: int,
        message: Any,
        done: Callable[[Any, Exception | None], None],
    ) -> None:
        """Call `done` once, with the response, or with None and why there is none; perhaps before this returns."""
        ...


class EndOffsets(Protocol):
    """The group coordinator's part in a transaction's end: its offsets become visible, or are dropped."""

    def __call__(
        self, tp: TopicPartition, producer_id: int, producer_epoch: int, marker: EndMarker, done: Committed
    ) -> None:
        """Append the marker to a partition of ``__consumer_offsets``, and apply it.

        Args:
            done: called once: NONE when the marker is committed and applied; NOT_COORDINATOR and
                COORDINATOR_LOAD_IN_PROGRESS as for all of a coordinator's clients.
        """
        ...
