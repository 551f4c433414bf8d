"""The broker's configuration for topics: defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from purgatorio.broker.log.config import GONE_CONFIGS, LogConfig
from purgatorio.broker.metadata.controller.result import DecisionRefused
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""The limit of partitions that one request creates, as in Kafka; brokers apply the image in steps."""

MAX_PARTITIONS: Final = 20_000
"""The limit of partitions in the cluster; each partition takes memory for a log on each of its replicas."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Defaults and limits for new topics.

    Attributes:
        log: the values of the configs that a topic does not set itself.
        max_partitions_per_request: the limit of partitions that one request creates.
        hidden: the topic configs that are neither listed nor accepted, because the release of Kafka lacks them.
        lowest: the smallest number that a topic config may have in the release, if that is not the config's own.
        has_tier: whether brokers have one, so that topics may have remote.storage.enable.
    """

    num_partitions: int = 1
    replication_factor: int = 1
    log: LogConfig = field(default_factory=LogConfig)
    max_partitions_per_request: int = MAX_PARTITIONS_PER_REQUEST
    max_partitions: int = MAX_PARTITIONS
    hidden: frozenset[str] = GONE_CONFIGS
    lowest: Mapping[str, int] = field(default_factory=dict)
    has_tier: bool = False


class PartitionBudget:
    """Counts the partitions that one request creates, and checks them against both limits."""

    def __init__(self, settings: TopicSettings, existing: int) -> None:
        self._settings = settings
        self._existing = existing
        self._created = 0

    @property
    def total(self) -> int:
        """The number of partitions in the cluster, including those that this request has created so far."""
        return self._existing + self._created

    def check(self, count: int) -> None:
        """Check that `count` more partitions stay within the limits; call it before creating them.

        Raises:
            DecisionRefused: with POLICY_VIOLATION.
        """
        per_request, total = self._settings.max_partitions_per_request, self._settings.max_partitions
        if self._created + count > per_request:
            raise DecisionRefused(
                ErrorCode.POLICY_VIOLATION, f"One request can create at most {per_request} partitions."
            )
        if self._existing + self._created + count > total:
            raise DecisionRefused(
                ErrorCode.POLICY_VIOLATION,
                f"The cluster can hold at most {total} partitions; it has {self._existing + self._created}.",
            )

    def spend(self, count: int) -> None:
        """Count partitions that the request has created."""
        self._created += count
