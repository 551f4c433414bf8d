"""What coordinators and leaders ask of each other, without knowing each other's rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode


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


class VerifyPartitions(Protocol):
    """Asks the coordinator of a transaction, here or on another broker, whether partitions are in it (KIP-890)."""

    def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Call `done` once, with an error code for each partition; perhaps before this returns.

        Args:
            add: add the partitions to the transaction, as clients of transaction.version 2 want it.
            done: gets NONE for partitions in the transaction, else what a client is told. Failures on the way are
                NOT_ENOUGH_REPLICAS, which all clients retry (KAFKA-16386).
        """
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
