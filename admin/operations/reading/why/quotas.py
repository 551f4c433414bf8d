"""The rule about clients whose connections are muted, as they are over a quota."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import WAITS, Conclusion, Facts
from purgatorio.admin.operations.reading.why.refusals import name_of
from purgatorio.broker.causes.words import seconds

QUOTAS: Final[Mapping[str, str]] = {
    "Produce": "producer_byte_rate",
    "Fetch": "consumer_byte_rate",
    "Request": "request_percentage",
    "ControllerMutation": "controller_mutation_rate",
}
"""The names by which quotas are set, by what they count."""


def is_muted_by_a_quota(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients of which nothing is read for some time; of several connections, the one that is muted longest."""
    muted: dict[tuple[str, str], Answer] = {}
    for row in facts.parked:
        for cause in row["causes"]:
            if isinstance(cause, dict) and cause.get("kind") == "QuotaExceeded":
                key = row["client"], cause["quota"]
                if key not in muted or cause["muted_ms"] > muted[key]["muted_ms"]:
                    muted[key] = cause
    for (client, quota), cause in muted.items():
        says = (
            f"{name_of({'client': client})} is slowed down by the quota {QUOTAS[quota]}={cause['limit']:.12g} of "
            f"{cause['rule']}: muted for {seconds(cause['muted_ms'])}; raise the quota"
        )
        yield Conclusion(says, (client,), WAITS)


RULES: Final = (is_muted_by_a_quota,)
