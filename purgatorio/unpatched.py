"""The standard library as it is without what tests put in its place: the brokers' time is not that of a test.

freezegun replaces the functions of the module `time`, also those that other modules have imported. time-machine
replaces what they do, also in objects that were taken from the module before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final


def _copy_of(name: str) -> ModuleType:
    """Return a module of the standard library, made once more: its functions are other objects, which nothing finds."""
    spec = find_spec(name)
    assert spec is not None, name
    assert spec.loader is not None, name
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_time = _copy_of("time")
monotonic: Callable[[], float] = _time.monotonic
monotonic_ns: Callable[[], int] = _time.monotonic_ns
_time_ns: Callable[[], int] = _time.time_ns
_imported: Final = sys.modules.get


def wall_ns() -> int:
    """Return the machine's nanoseconds since 1970-01-01 UTC, as `time.time_ns` does if nothing travels in time."""
    time_machine = _imported("time_machine")
    return _time_ns() if time_machine is None else _wall_ns_by(time_machine)


def _wall_ns_by(time_machine: Any) -> int:
    """Return the time without time-machine's travels; a test may begin or end a travel meanwhile."""
    way_out = getattr(time_machine, "escape_hatch", None)
    if way_out is None:  # it is being imported
        return _time_ns()
    while True:
        if way_out.is_travelling():
            with suppress(ValueError):  # it has ended
                return int(way_out.time.time_ns())
        told = _time_ns()
        if not way_out.is_travelling():
            return told
