"""A fault rule in a test's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.values import Request
from purgatorio.testing.waiting import WAIT_SECONDS, Waiting

if TYPE_CHECKING:
    from purgatorio.broker.layers.faults import AnyLive, Faults

T = TypeVar("T")

POLL_SECONDS: Final = 0.001
"""The time between two looks at a rule's counts."""


def requests(faults: Faults, api: str | None, client: str | None, topic: str | None) -> list[Request]:
    """Return the recorded requests of that description, oldest first; runs in the cluster's loop."""
    entries = faults.log.entries if faults.log is not None else ()
    return [
        Request(
            each.number,
            each.at_ms,
            each.broker,
            each.api,
            each.version,
            each.client,
            each.topics,
            each.ended,
            each.ended_ms - each.at_ms if each.ended_ms >= 0 else None,
            each.errors,
        )
        for each in entries
        if (api is None or each.api == api)
        and (client is None or each.client == client)
        and (topic is None or topic in each.topics)
    ]


class Fault:
    """A fault rule of a cluster; may be used from any thread, and as a context manager, which removes it at its end.

    Args:
        thread: the cluster's.
        rule: the rule at work.
        at_start: whether the cluster began with it.

    Attributes:
        at_start: whether the cluster began with it (``cluster(faults=[…])``).
    """

    def __init__(self, thread: LoopThread, rule: AnyLive, *, at_start: bool = False) -> None:
        self._thread = thread
        self._rule = rule
        self.at_start = at_start

    def __repr__(self) -> str:
        return f"<Fault {self.id}: {self._rule.rule}>"

    def __str__(self) -> str:
        """What the rule says, in one line."""
        return str(self._rule.rule)

    @property
    def id(self) -> int:
        """Its number, unique within the cluster."""
        return self._rule.id

    @property
    def matched(self) -> int:
        """The requests that matched, whether or not the rule acted on them."""
        return self._call(lambda: self._rule.matched, "count what it matched")

    @property
    def fired(self) -> int:
        """The requests that the rule acted on, or for one that observes, counted."""
        return self._call(lambda: self._rule.fired, "count what it fired")

    @property
    def held(self) -> int:
        """The requests that the rule holds now."""
        return self._call(lambda: self._rule.held, "count what it holds")

    def until_fired(self, times: int = 1, *, timeout_seconds: float = WAIT_SECONDS) -> Waiting[int]:
        """Wait, with ``await`` or ``.wait()``, until the rule has fired so often; the result is how often it has."""

        async def fired() -> int:
            while self._rule.fired < times:  # noqa: ASYNC110 - no event: rules are counted where speed matters
                await asyncio.sleep(POLL_SECONDS)
            return self._rule.fired

        what = f"fault {self.id} ({self}) to fire {times} times"
        return Waiting(self._thread.start(fired(), what), what, timeout_seconds)

    def release(self) -> None:
        """Hold no more: the requests that the rule holds go on, and it is removed."""
        self._call(self._rule.release, f"release what {self!r} holds")

    def remove(self) -> None:
        """Remove the rule; requests that it holds go on. May be called again."""
        self._call(self._rule.release, f"remove {self!r}")

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _call(self, function: Callable[[], T], doing: str) -> T:
        return self._thread.call(function, doing)
