"""The common part of the five APIs about states of share partitions: each entry is a request of its own.

Share partitions of one request may have different coordinators, and errors of their own. A request without a group, or
with a topic without partitions, gets an empty answer, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from purgatorio.broker.api.answers import NO_ROOM
from purgatorio.broker.share.state.coordinator import Answer, StateOutcome
from purgatorio.broker.share.state_client import MAX_PARTITIONS
from purgatorio.protocol.share_state import SharePartitionKey

Ask = Callable[[SharePartitionKey, Any, Answer], None]
"""Asks the coordinator about one share partition; the second argument is its entry in the request."""

Result = tuple[Any, list[tuple[Any, StateOutcome]]]
"""A topic of a request, with its entries and what became of each."""


def answer_each(
    request: Any, ask: Ask, respond: Callable[[Sequence[Result]], None], *, max_partitions: int = MAX_PARTITIONS
) -> None:
    """Ask about each share partition of a request; call `respond` once, when all have their outcome.

    Args:
        max_partitions: the most that are asked about; further ones are to be asked about again. This broker's
            persister never asks about more.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        respond(())
        return
    places = [(topic, entry) for topic in request.topics for entry in topic.partitions]
    outcomes: list[StateOutcome] = [StateOutcome(NO_ROOM, "The request names too many partitions.")] * len(places)
    missing = 1 + min(len(places), max_partitions)

    def settled(nth: int, outcome: StateOutcome) -> None:
        outcomes[nth] = outcome
        finish()

    def finish() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            respond(_by_topic(request, outcomes))

    for nth, (topic, entry) in enumerate(places[:max_partitions]):
        ask(SharePartitionKey(request.group_id, topic.topic_id, entry.partition), entry, partial(settled, nth))
    finish()


def _by_topic(request: Any, outcomes: Sequence[StateOutcome]) -> list[Result]:
    remaining = iter(outcomes)
    return [(topic, [(entry, next(remaining)) for entry in topic.partitions]) for topic in request.topics]
