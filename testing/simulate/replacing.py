"""Replaces functions of modules and classes for a while, and the names that other modules took of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

Place = tuple[Any, str]
"""A module or class, and the name in it."""
_KEPT: Final = ("purgatorio", "pytest", "_pytest", "pluggy", "execnet", "xdist", "hypothesis", "coverage")
"""Packages that keep what they took: they are outside of the simulation."""


@contextmanager
def replaced(values: Mapping[Place, Any]) -> Iterator[None]:
    """Replace what is at these places while the context lasts."""
    before = {place: _found(*place) for place in values}
    try:
        for (owner, name), value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)


def with_taken_names(values: Mapping[Place, Any]) -> dict[Place, Any]:
    """Add the places of functions that modules of services and libraries took by ``from time import sleep``."""
    real = {id(getattr(*place)): (getattr(*place), value) for place, value in values.items()}
    found = dict(values)
    for module_name, module in list(sys.modules.items()):
        root = module_name.partition(".")[0]
        if module is None or root in _KEPT or root in sys.stdlib_module_names:
            continue
        for name, taken in list(vars(module).items()):
            known = real.get(id(taken))
            if known is not None and known[0] is taken:
                found[module, name] = known[1]
    return found


def _found(owner: Any, name: str) -> Any:
    # Not getattr for a class: that would bind its class methods.
    return vars(owner)[name] if name in vars(owner) else getattr(owner, name)
