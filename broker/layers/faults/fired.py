"""What is told of a fault that fired."""

from __future__ import annotations

from typing import NamedTuple


class FiredFault(NamedTuple):
    """One request that a rule answered, or acted on.

    Attributes:
        at_ms: the time, on the cluster's clock.
        rule: the rule's id.
        nth: counts the requests that the rule acted on.
        client: the client id of the request.
        partitions: the partitions that the rule matched, as text; at most five. Empty if the rule is about the request.
        action: what was done, in words.
    """

    at_ms: int
    rule: int
    nth: int
    broker: int
    api: str
    version: int
    client: str
    partitions: tuple[str, ...]
    action: str
