"""How calls to share coordinators are made again."""

from __future__ import annotations

from purgatorio.late import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """How calls are made again; the defaults are Kafka's constants.

    Attributes:
        retries: how often a call is made again, beside the quick retries.
        backoff_ms: the first wait, doubled with each further one.
        max_backoff_ms: the longest one.
    """

    retries: int = 5
    backoff_ms: int = 1_000
    max_backoff_ms: int = 30_000
