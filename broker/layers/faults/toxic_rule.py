"""A toxic at work: its counts, and on which connections it acts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from purgatorio.broker.layers.faults.rule import is_from
from purgatorio.broker.layers.faults.toxic import Toxic

CONNECTION: Final = "connection"
"""The API name that toxics have in the list of faults."""


class LiveToxic:
    """A toxic that acts on connections, with the attributes of a `LiveRule`.

    Args:
        rule_id: unique within the cluster.
        rule: what it says.
        remove: removes it.
        seed: of its draws.

    Attributes:
        matched: the connections that it is about.
        fired: those of them on which it acts.
        held: 0: it holds no requests.
        is_spent: whether it has acted as often as it may: never.
    """

    __slots__ = ("_remove", "_rng", "fired", "id", "is_about", "matched", "rule")

    held: Final = 0
    is_spent: Final = False

    def __init__(self, rule_id: int, rule: Toxic, remove: Callable[[LiveToxic], object], seed: int) -> None:
        self.id = rule_id
        self.rule = rule
        self.matched = 0
        self.fired = 0
        self.is_about = is_from(rule.client, rule.replica)
        self._remove = remove
        self._rng = random.Random(f"{seed} {rule_id}")

    @property
    def name(self) -> str:
        """Its name, or else its number."""
        return self.rule.name or f"fault {self.id}"

    def draw(self) -> random.Random | None:
        """Count a connection that it is about; return a source of randomness if it acts on that one, or None."""
        self.matched += 1
        seed = self._rng.getrandbits(64)
        if self._rng.random() >= self.rule.toxicity:
            return None
        self.fired += 1
        return random.Random(seed)

    def let_go(self) -> None:
        """Hold nothing back: it holds no requests."""

    def release(self) -> None:
        """Remove it, if it is there still."""
        self._remove(self)

    def as_data(self) -> dict[str, Any]:
        """Return it with its counts."""
        return {
            "id": self.id,
            "rule": self.rule.as_data(),
            "text": str(self.rule),
            "matched": self.matched,
            "fired": self.fired,
            "held": self.held,
            "spent": self.is_spent,
        }


class Toxics:
    """The toxics of one broker's connections.

    Args:
        broker_id: the broker.
        rules: those that may be about its connections, oldest first.
        note: called for each connection on which one acts, with the fields of `FiredFault`.
    """

    __slots__ = ("_broker_id", "_note", "rules")

    def __init__(self, broker_id: int, rules: Sequence[LiveToxic], note: Callable[..., None]) -> None:
        self._broker_id = broker_id
        self._note = note
        self.rules = tuple(rules)

    def are_about(self, client: str) -> bool:
        """Return whether one of them is about the connections of a client id."""
        return any(each.is_about(client) for each in self.rules)

    def draw(self, live: LiveToxic, client: str) -> random.Random | None:
        """Let a toxic draw for a connection of the client, and note it if the toxic acts; return as the toxic does."""
        rng = live.draw()
        if rng is not None:
            self._note(
                rule=live.id,
                nth=live.fired,
                broker=self._broker_id,
                api=CONNECTION,
                version=0,
                client=client,
                partitions=(),
                action=f"{live.rule.toxic} {live.rule.stream}",
            )
        return rng
