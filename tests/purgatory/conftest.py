"""Fixtures of the purgatory tests: a clock moved by hand, and an operation that completes when told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from purgatorio.purgatory import ActionQueue, DelayedOperation, FinishedOperation, Purgatory, Timer


class HandClock:
    """Time that moves only when told to."""

    def __init__(self, now_ms: int = 0) -> None:
        self.ms = now_ms

    def __call__(self) -> int:
        return self.ms


class Waiting(DelayedOperation):
    """An operation that can be completed once `ready` is set, and writes down what happens to it.

    No slots of its own, so that tests can take weak references and replace its methods.
    """

    def __init__(self, delay_ms: int = 10_000, *, name: str = "", history: list[Any] | None = None) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.name = name
        self.history: list[Any] = [] if history is None else history
        self.during_try: Callable[[], object] = _nothing
        self.during_complete: Callable[[], object] = _nothing

    def note(self, what: str) -> None:
        self.history.append(f"{self.name} {what}" if self.name else what)

    def try_complete(self) -> bool:
        self.during_try()
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.note("answered")
        self.during_complete()

    def on_expiration(self) -> None:
        self.note("expired")

    def on_error(self, error: Exception) -> None:
        self.note(f"failed: {error}")

    def on_shutdown(self) -> None:
        self.note("shut down")

    def causes(self) -> tuple[str]:
        return (f"{self.name} is not ready",)


def _nothing() -> None:
    """The hook of an operation that does nothing special."""


@dataclass
class House:
    """A purgatory with its clock, timer, action queue, and what it reported."""

    clock: HandClock
    timer: Timer
    actions: ActionQueue
    purgatory: Purgatory[Waiting]
    finished: list[FinishedOperation] = field(default_factory=list)

    def park(self, *keys: Any, delay_ms: int = 10_000, name: str = "") -> Waiting:
        operation = Waiting(delay_ms, name=name)
        assert not self.purgatory.try_complete_else_watch(operation, keys)
        return operation

    def advance(self, by_ms: int) -> int:
        self.clock.ms += by_ms
        return self.timer.advance(self.clock.ms)

    def assert_empty(self) -> None:
        assert (self.purgatory.num_delayed, self.purgatory.watched, self.timer.size) == (0, 0, 0)
        assert self.purgatory.watch_lists() == []
        assert self.purgatory.operations() == []


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1_000)


@pytest.fixture
def waiting() -> type[Waiting]:
    return Waiting


@pytest.fixture
def make_house(clock: HandClock) -> Callable[..., House]:
    def make(purge_interval: int = 1000, *, timer: Timer | None = None, actions: ActionQueue | None = None) -> House:
        timer = timer or Timer(clock)
        actions = actions or ActionQueue()
        purgatory: Purgatory[Waiting] = Purgatory("Test", timer, actions=actions, purge_interval=purge_interval)
        house = House(clock, timer, actions, purgatory)
        purgatory.on_finished = house.finished.append
        return house

    return make


@pytest.fixture
def house(make_house: Callable[..., House]) -> House:
    return make_house()
