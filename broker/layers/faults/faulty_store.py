"""The object store of one broker's tier, as fault rules let it be."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final

from purgatorio.broker.causes.cause import FaultActs
from purgatorio.broker.causes.kinds import FAULT
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.layers.faults.live_rule import HOLD_MS
from purgatorio.broker.layers.faults.matching import KnownTopics
from purgatorio.broker.layers.faults.tier_rule import ERRORS, LiveTierRule, TierRule
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.tier.names import partition_of
from purgatorio.broker.tier.store import Store, StoredObject
from purgatorio.protocol.compression import Buffer
from purgatorio.purgatory import DelayedOperation


class HeldCall(DelayedOperation):
    """A call that waits because a rule says so.

    Args:
        delay_ms: how long it waits if it is not released.
        cause: why it waits.
        key: the object's name, or the prefix of a list.

    Attributes:
        is_over: is set when the call may be made.
    """

    __slots__ = ("_cause", "is_over", "key")

    def __init__(self, delay_ms: int, cause: FaultActs, key: str) -> None:
        super().__init__(delay_ms)
        self.key = key
        self.is_over = asyncio.Event()
        self._cause = cause

    def try_complete(self) -> bool:
        """Wait on: no event ends the wait but the deadline or `force_complete`."""
        return False

    def on_complete(self) -> None:
        """Have the call made."""
        self.is_over.set()

    def causes(self) -> tuple[FaultActs]:
        """Return which rule the call waits for."""
        return (self._cause,)

    @property
    def rule_id(self) -> int:
        """The rule that keeps the call."""
        return self._cause.fault_id


class StoreRules:
    """The rules about the store of one broker.

    Args:
        broker_id: the broker.
        rules: those that may act, newest first.
        topics: the topics that the broker knows.
        purgatories: see `FaultTarget`.
        rng: of the rules with a probability.
        note: called for each fault that fired, with the fields of `FiredFault`.
    """

    def __init__(
        self,
        broker_id: int,
        rules: Sequence[LiveTierRule],
        topics: KnownTopics,
        purgatories: Purgatories,
        rng: random.Random,
        note: Callable[..., None],
    ) -> None:
        self.rules = tuple(rules)
        self._broker_id = broker_id
        self._topics = topics
        self._purgatories = purgatories
        self._rng = rng
        self._note = note

    def meet(self, call: str, key: str) -> tuple[LiveTierRule, TopicPartition | None] | None:
        """Return the newest rule that acts on a call, with the partition of the object if it is known; None: none."""
        topic_id, partition = partition_of(key) or (b"", -1)
        topic = self._topics.topic_name(topic_id)
        for live in self.rules:
            if not live.is_about(call, topic, partition) or not live.acts(self._rng):
                continue
            tp = None if topic is None else TopicPartition(topic, partition)
            self._note(
                rule=live.id,
                nth=live.fired,
                broker=self._broker_id,
                api=f"tier {call}",
                version=0,
                client="",
                partitions=() if tp is None else (str(tp),),
                action=_in_words(live.rule),
            )
            return live, tp
        return None

    async def wait(self, live: LiveTierRule, call: HeldCall, tp: TopicPartition | None) -> None:
        """Have a call wait; a wait that is cancelled leaves nothing."""
        purgatory = self._purgatories.of(FAULT)
        purgatory.try_complete_else_watch(call, (live.name,) if tp is None else (live.name, tp))
        if live.rule.hold:
            live.holds(call)
        try:
            await call.is_over.wait()
        finally:
            purgatory.cancel(call)
            live.no_longer_holds(call)


class FaultyStore:
    """A store in front of another one, whose calls meet the fault rules.

    Args:
        store: the other one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rules: StoreRules | None = None
        self._waiting: dict[HeldCall, None] = {}

    @property
    def location(self) -> str:
        """Where the store is."""
        return self._store.location

    def obey(self, rules: StoreRules) -> None:
        """Have calls meet these rules from now on, in place of those before."""
        self._rules = rules if rules.rules else None

    def held_by(self, prefix: str) -> int | None:
        """Return the id of the rule that keeps a call on an object of this prefix waiting; None: none does."""
        return next((call.rule_id for call in self._waiting if call.key.startswith(prefix)), None)

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        """Write an object, or what a rule makes of it."""
        rule = await self._met("put", key)
        if rule is not None and rule.lose:
            return
        await self._store.put(key, _damaged(parts) if rule is not None and rule.corrupt else parts, create=create)

    async def get(self, key: str, start: int, length: int) -> Buffer:
        """Return bytes of an object, or what a rule makes of them."""
        rule = await self._met("get", key)
        data = await self._store.get(key, start, length)
        if rule is not None and rule.truncate_bytes is not None:
            return memoryview(data)[: rule.truncate_bytes]
        return _damaged([data])[0] if rule is not None and rule.corrupt else data

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """Return the objects of a prefix."""
        await self._met("list", prefix)
        return await self._store.list(prefix)

    async def delete(self, key: str) -> None:
        """Delete an object, or claim so if a rule says that."""
        rule = await self._met("delete", key)
        if rule is None or not rule.lose:
            await self._store.delete(key)

    async def _met(self, call: str, key: str) -> TierRule | None:
        """Let the newest rule that matches a call act before it; return the rule, or None.

        Raises:
            StoreError: the rule says so.
        """
        rules = self._rules
        met = None if rules is None else rules.meet(call, key)
        if rules is None or met is None:
            return None
        live, tp = met
        rule = live.rule
        if rule.hold or rule.delay_ms:
            action: Final = "hold" if rule.hold else "delay_ms"
            cause = FaultActs(live.id, live.name, f"tier {call}", action, rule.delay_ms)
            held = HeldCall(rule.delay_ms or HOLD_MS, cause, key)
            self._waiting[held] = None
            try:
                await rules.wait(live, held, tp)
            finally:
                del self._waiting[held]
        if rule.error is not None:
            raise ERRORS[rule.error](f"{rule.error}, by {live.name}")
        return rule


def _damaged(parts: Sequence[Buffer]) -> list[Buffer]:
    """Return bytes whose last bit is another one; empty ones as they are."""
    data = bytearray(b"".join(parts))
    if data:
        data[-1] ^= 1
    return [bytes(data)]


def _in_words(rule: TierRule) -> str:
    """Describe what a rule does to a call, in words."""
    done = [f"waits {rule.delay_ms} ms"] if rule.delay_ms else ["held"] if rule.hold else []
    if rule.error is not None:
        done.append(rule.error)
    if rule.truncate_bytes is not None:
        done.append(f"cut to {rule.truncate_bytes} bytes")
    if rule.corrupt:
        done.append("corrupted")
    if rule.lose:
        done.append("lost")
    return ", ".join(done)
