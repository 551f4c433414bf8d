"""What a broker's configuration says about topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.metadata.controller.result import Refused
from purgatorio.protocol.errors import ErrorCode

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Partitions that one request may create; Kafka's controller has the same bound."""

MAX_PARTITIONS: Final = 20_000
"""Partitions of the cluster. Each costs every replica a log in memory, so they are counted like bytes."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Defaults and bounds for new topics.

    Attributes:
        num_partitions: for topics created without saying how many.
        replication_factor: likewise.
        log: the values of the configs that a topic does not set itself.
    """

    num_partitions: int = 1
    replication_factor: int = 1
    log: LogConfig = field(default_factory=LogConfig)
    max_partitions_per_request: int = MAX_PARTITIONS_PER_REQUEST
    max_partitions: int = MAX_PARTITIONS


class PartitionBudget:
    """Counts the partitions that one request creates against both bounds."""

    def __init__(self, settings: TopicSettings, existing: int) -> None:
        self._settings = settings
        self._existing = existing
        self._created = 0

    @property
    def total(self) -> int:
        """Partitions of the cluster, those that the request has created so far included."""
        return self._existing + self._created

    def check(self, count: int) -> None:
        """Refuse `count` further partitions if they are too many; call before making any."""
        per_request, total = self._settings.max_partitions_per_request, self._settings.max_partitions
        if self._created + count > per_request:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"One request can create at most {per_request} partitions.")
        if self._existing + self._created + count > total:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"The cluster can hold at most {total} partitions; it has {self._existing + self._created}.",
            )

    def spend(self, count: int) -> None:
        """Count partitions that are created."""
        self._created += count
