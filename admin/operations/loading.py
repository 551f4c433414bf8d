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
from typing import Final

from purgatorio.admin.operations.declare import Operation

_loaded: Final[set[type[Operation]]] = set()


def load(operations: Iterable[type[Operation]]) -> None:
    """Import what some operations import: their own methods, and the functions in their files."""
    for operation in operations:
        if operation not in _loaded:
            _loaded.add(operation)
            for name in imported_by(operation):
                importlib.import_module(name)


def imported_by(operation: type[Operation]) -> list[str]:
    """The modules of ours that an operation imports when it is done."""
    found: dict[str, None] = {}
    for each in operation.__mro__[: operation.__mro__.index(Operation)]:
        file = each.__module__
        values = [value for value in vars(sys.modules[file]).values() if not isinstance(value, type)]
        found.update(dict.fromkeys(_imported(_codes([each, *values], file))))
    return list(found)


def imported_late(file: str) -> list[str]:
    """The modules of ours that a loaded module's functions, and the methods of its classes, import."""
    return list(dict.fromkeys(_imported(_codes(vars(sys.modules[file]).values(), file))))


def _imported(codes: Iterable[CodeType]) -> Iterator[str]:
    """Yield the names of modules in some codes: a name with dots is one, an attribute has none."""
    return (name for code in codes for name in code.co_names if name.startswith("purgatorio."))


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
