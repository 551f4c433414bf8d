"""A rule at work: its counts, and the requests that it holds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from purgatorio.broker.causes.cause import FaultActs
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.faults.matching import Matcher
from purgatorio.broker.layers.faults.rule import Rule
from purgatorio.broker.routing.request import Channel, Reply
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import DelayedOperation

HOLD_MS: Final = 3_600_000
"""The longest that a request is held or kept without an answer; clients give up much earlier."""


class FaultedRequest(DelayedOperation):
    """A request that waits because a rule says so.

    Args:
        delay_ms: how long it waits if it is not released.
        cause: why it waits.
        reply: the request's.
        go_on: begins the work; None: the request is never answered, and its connection is closed at the deadline.
        muted: the request's connection, which starts no further request before this one goes on: the work of pipelined
            requests is done in their order.
    """

    __slots__ = ("_cause", "_go_on", "_muted", "_reply")

    def __init__(
        self, delay_ms: int, cause: FaultActs, reply: Reply, go_on: Callable[[], None] | None, muted: Channel | None
    ) -> None:
        super().__init__(delay_ms)
        self._muted = muted
        self._cause = cause
        self._reply = reply
        self._go_on = go_on

    def try_complete(self) -> bool:
        """Wait on: no event ends the wait but the deadline or `force_complete`."""
        return False

    def on_complete(self) -> None:
        """Begin the work, and then, in a later turn, that of the requests behind."""
        if self._muted is not None:
            self._muted.unmute()
        if self._go_on is not None:
            self._go_on()
        else:
            self._reply.close(f"its time is over: {in_words(self.causes())}")

    def on_shutdown(self) -> None:
        """Close the connection: the client asks another broker."""
        self._reply.close("the broker stops")

    def on_error(self, error: Exception) -> None:
        """Close the connection: the handler failed, and may have answered a part."""
        self._reply.close(f"the request failed after it had waited: {type(error).__name__}")

    def causes(self) -> tuple[FaultActs]:
        """Return which rule the request waits for."""
        return (self._cause,)


class Counted(Protocol):
    """A rule of any kind, which acts on some of what it matches."""

    @property
    def name(self) -> str:
        """The name for lists and reports; "": it has none."""

    @property
    def nth(self) -> int | None:
        """The only one of those that match on which it acts, counted from 1; None: on any."""

    @property
    def probability(self) -> float | None:
        """The share of those that match; None: all."""

    @property
    def budget(self) -> int | None:
        """The most on which it acts; None: no limit."""

    def as_data(self) -> dict[str, Any]:
        """Return the attributes that the rule sets."""


R = TypeVar("R", bound=Counted)


class LiveFault(Generic[R]):
    """A rule at work, whatever it is about.

    Args:
        rule_id: unique within the cluster.
        rule: the rule as data.
        remove: removes the rule.

    Attributes:
        matched: the requests that it matched, whether or not it acted on them.
        fired: the requests that it acted on, or for a rule that observes, counted.
    """

    __slots__ = ("_held", "_remove", "fired", "id", "matched", "rule")

    def __init__(self, rule_id: int, rule: R, remove: Callable[[Any], object]) -> None:
        self.id = rule_id
        self.rule = rule
        self.matched = 0
        self.fired = 0
        self._held: dict[DelayedOperation, None] = {}
        self._remove = remove

    @property
    def name(self) -> str:
        """Its name, or else its number."""
        return self.rule.name or f"fault {self.id}"

    @property
    def held(self) -> int:
        """The number of requests that it holds now."""
        return sum(not each.completed for each in self._held)

    @property
    def is_spent(self) -> bool:
        """Whether it has acted as often as it may."""
        budget = self.rule.budget
        return budget is not None and self.fired >= budget

    def acts(self, rng: random.Random) -> bool:
        """Count a request that matched; return whether the rule acts on it, and count that too."""
        self.matched += 1
        rule = self.rule
        if rule.nth is not None and self.matched != rule.nth:
            return False
        if rule.probability is not None and rng.random() >= rule.probability:
            return False
        self.fired += 1
        return True

    def holds(self, request: DelayedOperation) -> None:
        """Keep a request that waits for `release`."""
        self._held = {each: None for each in self._held if not each.completed}
        self._held[request] = None

    def no_longer_holds(self, request: DelayedOperation) -> None:
        """Forget a request that was given up."""
        self._held.pop(request, None)

    def let_go(self) -> None:
        """Begin the work of the requests that it holds, oldest first."""
        held, self._held = self._held, {}
        for each in held:
            each.force_complete()

    def release(self) -> None:
        """Hold no more: remove the rule if it is there still, and let go what it holds."""
        self._remove(self)

    def as_data(self) -> dict[str, Any]:
        """Return the rule with its counts."""
        return {
            "id": self.id,
            "rule": self.rule.as_data(),
            "text": str(self.rule),
            "matched": self.matched,
            "fired": self.fired,
            "held": self.held,
            "spent": self.is_spent,
        }


class LiveRule(LiveFault[Rule]):
    """A rule at work on requests; see `LiveFault`.

    Attributes:
        matcher: what it matches.
    """

    __slots__ = ("matcher",)

    def __init__(self, rule_id: int, rule: Rule, remove: Callable[[LiveRule], object]) -> None:
        super().__init__(rule_id, rule, remove)
        self.matcher = Matcher(rule)

    def error_code(self) -> ErrorCode | None:
        """Return the error code for the request on which it acted last; None: it has none."""
        rule = self.rule
        name = rule.errors[self.fired - 1] if rule.errors else rule.error
        return None if name is None else ErrorCode[name]
