"""A persister whose answers the test gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey


@dataclass
class FakeState:
    """The state of a share partition, as a summary tells it."""

    state_epoch: int
    start_offset: int
    leader_epoch: int = 0
    delivery_complete_count: int = 0


class FakePersister:
    """Keeps states, fenced by their epochs.

    Attributes:
        states: those that exist.
        errors: what is answered for a partition in place of success, by its name: "orders-3".
        is_held: whether requests are not carried out, nor answered, before `release`.
        calls: what was asked: ("initialize", "orders-0", epoch, start), ("delete", "orders-0") and so on.
    """

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, FakeState] = {}
        self.errors: dict[str, ErrorCode] = {}
        self.is_held = False
        self.calls: list[tuple[Any, ...]] = []
        self.held: list[Callable[[], None]] = []

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Callable[[ErrorCode], None]
    ) -> None:
        self.calls.append(("initialize", named(key), state_epoch, start_offset))
        self._answer(partial(self._initialize, key, state_epoch, start_offset, done))

    def _initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Callable[[ErrorCode], None]
    ) -> None:
        error_code = self.errors.get(named(key), ErrorCode.NONE)
        known = self.states.get(key)
        if known is not None and known.state_epoch > state_epoch:
            error_code = ErrorCode.FENCED_STATE_EPOCH
        if not error_code:
            self.states[key] = FakeState(state_epoch, start_offset)
        done(error_code)

    def delete(self, key: SharePartitionKey, *, done: Callable[[ErrorCode], None]) -> None:
        self.calls.append(("delete", named(key)))
        self._answer(partial(self._delete, key, done))

    def _delete(self, key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
        error_code = self.errors.get(named(key), ErrorCode.NONE)
        if not error_code:
            self.states.pop(key, None)
        done(error_code)

    def summary(self, key: SharePartitionKey, *, done: Callable[[ErrorCode, Any], None]) -> None:
        self.calls.append(("summary", named(key)))
        error_code = self.errors.get(named(key), ErrorCode.NONE)
        known = None if error_code else self.states.get(key, FakeState(-1, -1, -1))
        self._answer(partial(done, error_code, known))

    def _answer(self, answer: Callable[[], None]) -> None:
        if self.is_held:
            self.held.append(answer)
        else:
            answer()

    def release(self) -> None:
        """Carry out and answer all that is held."""
        held, self.held = self.held, []
        for each in held:
            each()

    def take_calls(self) -> list[tuple[Any, ...]]:
        """Return what was asked since the last call of this."""
        calls, self.calls = self.calls, []
        return calls


def named(key: SharePartitionKey) -> str:
    """Return a share partition of a harness as "orders-3": the ids of its topics are their names."""
    return f"{key.topic_id.rstrip(bytes(1)).decode()}-{key.partition}"
