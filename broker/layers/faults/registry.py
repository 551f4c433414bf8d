"""The fault rules of a cluster: listed, counted, and put in front of the handlers that they are about."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, Final, NamedTuple, overload

from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.layers.faults.acting import Interceptor, WithoutSessions, needs_partitions
from purgatorio.broker.layers.faults.faulty_store import StoreRules
from purgatorio.broker.layers.faults.live_rule import LiveRule
from purgatorio.broker.layers.faults.matching import KnownTopics
from purgatorio.broker.layers.faults.request_log import RequestLog
from purgatorio.broker.layers.faults.rule import FaultError, Rule
from purgatorio.broker.layers.faults.skipping import can_match, skipper, straight
from purgatorio.broker.layers.faults.tier_rule import LiveTierRule, TierRule
from purgatorio.broker.layers.faults.toxic import AnyFault, Toxic
from purgatorio.broker.layers.faults.toxic_rule import LiveToxic, Toxics
from purgatorio.broker.routing.request import Handler, Route
from purgatorio.broker.routing.route_layers import Layer, RouteLayers
from purgatorio.late import dataclass
from purgatorio.protocol.api_key import ApiKey
from purgatorio.purgatory.clock import Clock


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


MAX_RULES: Final = 1_000
"""Rules at a time; each request of a rule's API asks all of them."""
MAX_FIRED: Final = 1_000
"""Fired faults that are remembered."""


class TooManyFaults(Exception):
    """There are `MAX_RULES` rules already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTarget:
    """The parts of a broker on which fault rules act.

    Attributes:
        layers: of the broker's routes.
        topics: the topics that the broker knows.
        purgatories: have one for requests that wait because of a rule, which is made for the first of them.
        toxics: has the broker's connections, present and new ones, pass these toxics.
        tier: has the broker's calls of the tier's object store meet these rules; None: there is no tier.
        ruled: the APIs that rules are about by their names.
    """

    broker_id: int
    layers: RouteLayers
    topics: KnownTopics
    purgatories: Purgatories
    toxics: Callable[[Toxics], None]
    tier: Callable[[StoreRules], None] | None = None
    ruled: dict[ApiKey, None] = field(default_factory=dict)

    def is_ruled(self, key: ApiKey) -> bool:
        """Return whether a rule is about an API by its name, so that the broker's calls of itself are to meet it."""
        return key in self.ruled


AnyLive = LiveRule | LiveToxic | LiveTierRule
"""A rule at work, about requests, connections, or calls of the tier's object store."""


class FaultRegistry:
    """The fault rules of a cluster.

    Args:
        clock: the cluster's.
        seed: of the draws of rules with a probability.

    Attributes:
        fired: the faults that fired last, oldest first.
        log: the last requests; None: they are not recorded.
    """

    def __init__(self, clock: Clock, seed: int = 0) -> None:
        self._clock = clock
        self._seed = seed
        self._rng = random.Random(seed)
        self._brokers: dict[int, FaultTarget] = {}
        self._rules: dict[int, AnyLive] = {}
        self._last_id = 0
        self.fired: deque[FiredFault] = deque(maxlen=MAX_FIRED)
        self.log: RequestLog | None = None

    @property
    def rules(self) -> list[AnyLive]:
        """The rules, oldest first. The newest one that matches a request acts; of toxics, each that is about it."""
        return list(self._rules.values())

    def attach(self, broker: FaultTarget) -> None:
        """Apply the rules to a broker, in place of an earlier one of its id."""
        self._brokers[broker.broker_id] = broker
        self._install(broker)
        if any(isinstance(live, LiveToxic) for live in self._rules.values()):
            self._poison(broker)
        self._rule_tier(broker)

    def detach(self, broker: FaultTarget) -> None:
        """Forget a broker that has ended, with all that belongs to it; no rule keeps its end from the tier's store."""
        if self._brokers.get(broker.broker_id) is broker:
            del self._brokers[broker.broker_id]
        if broker.tier is not None:
            broker.tier(StoreRules(broker.broker_id, (), broker.topics, broker.purgatories, self._rng, self._note))

    @overload
    def add(self, rule: Rule) -> LiveRule: ...
    @overload
    def add(self, rule: Toxic) -> LiveToxic: ...
    @overload
    def add(self, rule: TierRule) -> LiveTierRule: ...
    @overload
    def add(self, rule: AnyFault) -> AnyLive: ...
    def add(self, rule: AnyFault) -> AnyLive:
        """Apply a rule to requests and calls from now on, or to the connections that are open or come.

        Raises:
            TooManyFaults: there are `MAX_RULES` rules.
            FaultError: it is about the tier, and the brokers have none.
        """
        if len(self._rules) >= MAX_RULES:
            raise TooManyFaults(f"there are {MAX_RULES} fault rules; remove some")
        if isinstance(rule, TierRule) and self._brokers and all(each.tier is None for each in self._brokers.values()):
            raise FaultError("the brokers have no tier: the rule can never match")
        self._last_id += 1
        live: AnyLive
        if isinstance(rule, Toxic):
            live = LiveToxic(self._last_id, rule, self._removed, self._seed)
        elif isinstance(rule, TierRule):
            live = LiveTierRule(self._last_id, rule, self._removed)
        else:
            live = LiveRule(self._last_id, rule, self._removed)
        self._rules[live.id] = live
        self._changed(live)
        return live

    def remove(self, rule_id: int) -> AnyLive | None:
        """Remove a rule, and let the requests go on that it holds; return it, or None if there is none of this id."""
        live = self._rules.pop(rule_id, None)
        if live is not None:
            self._changed(live)
            live.let_go()
        return live

    def _removed(self, live: AnyLive) -> None:
        """Remove this rule; not another one that has its id since the rules were cleared."""
        if self._rules.get(live.id) is live:
            self.remove(live.id)

    def clear(self) -> None:
        """Remove all rules; what they fired is forgotten, and ids and draws begin anew."""
        for rule_id in list(self._rules):
            self.remove(rule_id)
        self.fired.clear()
        self._last_id = 0
        self._rng.seed(self._seed)

    def record_requests(self) -> None:
        """Record the requests of clients from now on, which costs each of them some microseconds."""
        if self.log is None:
            self.log = RequestLog(self._clock)
            self._install_all()

    def reset(self) -> None:
        """Remove all rules, and forget the requests that were recorded."""
        self.clear()
        if self.log is not None:
            self.log.clear()

    def _changed(self, live: AnyLive) -> None:
        """Apply the rules anew after this one came or went."""
        if isinstance(live, LiveToxic):
            for broker in self._brokers.values():
                self._poison(broker)
        elif isinstance(live, LiveTierRule):
            for broker in self._brokers.values():
                self._rule_tier(broker)
        else:
            self._install_all()

    def _poison(self, broker: FaultTarget) -> None:
        """Have the connections of a broker pass the toxics that may be about them."""
        rules = [
            live
            for live in self._rules.values()
            if isinstance(live, LiveToxic) and live.rule.broker in (None, broker.broker_id)
        ]
        broker.toxics(Toxics(broker.broker_id, rules, self._note))

    def _rule_tier(self, broker: FaultTarget) -> None:
        """Have a broker's calls of the tier meet the rules that may act on them."""
        if broker.tier is None:
            return
        newest_first = [
            live
            for live in reversed(self._rules.values())
            if isinstance(live, LiveTierRule) and live.rule.broker in (None, broker.broker_id) and not live.is_spent
        ]
        broker.tier(
            StoreRules(broker.broker_id, newest_first, broker.topics, broker.purgatories, self._rng, self._note)
        )

    def _install_all(self) -> None:
        for broker in self._brokers.values():
            self._install(broker)

    def _install(self, broker: FaultTarget) -> None:
        """Put the rules before the handlers of their APIs; give the other APIs their own handlers back."""
        newest_first = [
            live
            for live in reversed(self._rules.values())
            if isinstance(live, LiveRule) and live.rule.broker in (None, broker.broker_id) and not live.is_spent
        ]
        broker.ruled.clear()
        broker.ruled.update((key, None) for live in newest_first if (key := live.matcher.api_key) is not None)
        if not newest_first and self.log is None:
            broker.layers.remove(Layer.FAULTS)
        else:
            broker.layers.put(Layer.FAULTS, partial(self._before, broker, newest_first))

    def _before(self, broker: FaultTarget, newest_first: list[LiveRule], key: int, route: Route) -> Handler:
        rules = [live for live in newest_first if can_match(live.matcher, live.rule, key)]
        handler = self._interceptor(broker, key, route, rules) if rules else route.handler
        return handler if self.log is None else self.log.before(handler, broker.broker_id, key, broker.topics)

    def _interceptor(self, broker: FaultTarget, key: int, route: Route, rules: list[LiveRule]) -> Handler:
        behind = tuple((skipper(live.matcher, live.rule, key, broker.topics), live) for live in rules)
        handler = Interceptor(
            broker.broker_id, route, behind, broker.topics, broker.purgatories, self._rng, self._note
        ).handler()
        handler = straight(handler, route.handler, [live.rule for live in rules], key, broker.topics)
        if key == ApiKey.FETCH and (about := [live for live in rules if needs_partitions(live)]):
            handler = WithoutSessions(handler, route, about)
        return handler

    def _note(self, **told: Any) -> None:
        self.fired.append(FiredFault(at_ms=self._clock.now_ms(), **told))
        live = self._rules.get(told["rule"])
        if live is not None and live.is_spent:
            self._changed(live)  # it costs nothing from now on
