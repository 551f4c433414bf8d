"""Imports what operations import when they are done.

The functions of `purgatorio.admin.operations` import what they need, so that the command, which declares itself from
their classes, loads no broker. The first "hold a follower" imported six modules in the brokers' event loop, which takes
12 ms of CPU, in which no client is answered. So these imports are made before, in the caller's thread.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

from purgatorio.admin.operations.declare import Operation


def load(operations: Iterable[type[Operation]]) -> None:
    """Import what the functions in the files of some operations import."""
    for file in dict.fromkeys(operation.__module__ for operation in operations):
        for name in imported_late(file):
            importlib.import_module(name)


def imported_late(file: str) -> list[str]:
    """The modules of ours that a loaded module's functions, and the methods of its classes, import."""
    found: dict[str, None] = {}
    for code in _codes(vars(sys.modules[file]).values(), file):
        # A name with dots is that of a module: an attribute has none.
        found.update((name, None) for name in code.co_names if name.startswith("purgatorio."))
    return list(found)


def _codes(values: Iterable[object], file: str) -> Iterator[CodeType]:
    for value in values:
        function = inspect.unwrap(getattr(value, "__func__", value))  # type: ignore[arg-type]
        if isinstance(function, FunctionType):
            if function.__module__ == file:
                yield from _nested(function.__code__)
        elif isinstance(function, property):
            yield from _codes((function.fget,), file)
        elif isinstance(function, type) and function.__module__ == file:
            yield from _codes(vars(function).values(), file)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
