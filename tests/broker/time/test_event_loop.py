"""The event loop in which brokers run."""

from __future__ import annotations

import asyncio
import sys
import time
from unittest import mock

import pytest
from freezegun import freeze_time

from purgatorio import unpatched
from purgatorio.broker.time.event_loop import loop_factory, own_loop


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


@pytest.mark.slow
@freeze_time("2020-01-01")
def test_asyncios_own_loop_goes_by_the_machines_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = own_loop()
    try:
        assert isinstance(loop, asyncio.BaseEventLoop)
        assert loop.time() != time.monotonic()
        assert abs(loop.time() - unpatched.monotonic()) < 1
    finally:
        loop.close()


def test_a_loop_of_ours_is_none_of_the_users_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GUI's, which brings its loop into each thread that asks."""
    monkeypatch.setattr(asyncio, "new_event_loop", mock.Mock(side_effect=RuntimeError("only in the main thread")))
    monkeypatch.setitem(sys.modules, "uvloop", None)
    own_loop().close()
