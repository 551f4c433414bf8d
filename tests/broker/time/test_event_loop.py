"""The event loop in which brokers run."""

from __future__ import annotations

import asyncio
import sys

import pytest

from purgatorio.broker.time.event_loop import loop_factory


def test_uvloop_runs_the_process_where_there_is_one() -> None:
    uvloop = pytest.importorskip("uvloop")
    assert loop_factory() is uvloop.new_event_loop


def test_asyncio_runs_the_process_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uvloop the runner is left to make asyncio's own loop."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    factory = loop_factory()
    assert factory is None
    with asyncio.Runner(loop_factory=factory) as runner:
        assert isinstance(runner.get_loop(), asyncio.BaseEventLoop)
