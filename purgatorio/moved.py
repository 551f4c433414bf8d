"""Old names of modules, for one release: importing one works, warns, and says the new name.

0.3.0 moved the purgatory, and what is above the brokers, out of `purgatorio.broker`. The names here go with 0.4.0.
The classes have the methods of `importlib.abc`, which itself takes 5 ms to import.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

MOVED: Final = {
    "purgatorio.broker.purgatory": "purgatorio.purgatory",
    "purgatorio.broker.operations.errors": "purgatorio.broker.cluster.errors",
    "purgatorio.broker.operations.control.decisions": "purgatorio.broker.cluster.decisions",
    "purgatorio.broker.operations.control.leadership": "purgatorio.broker.cluster.leadership",
    "purgatorio.broker.operations.control.network": "purgatorio.broker.cluster.network",
    "purgatorio.broker.operations.control.snapshots": "purgatorio.broker.cluster.snapshots",
    "purgatorio.broker.operations": "purgatorio.admin.operations",
    "purgatorio.broker.web": "purgatorio.admin.web",
    "purgatorio.broker.cli": "purgatorio.admin.cli",
    "purgatorio.broker.learn": "purgatorio.admin.learn",
}
"""The new name of each module that moved; a module inside of it moved along."""


def new_name(name: str) -> str | None:
    """The new name of a module by its old one; None if it did not move."""
    old = name
    while old not in MOVED:
        old, _, last = old.rpartition(".")
        if not last:
            return None
    return MOVED[old] + name[len(old) :]


class _OldName:
    """Loads a module that moved: imports it by its new name, and warns."""

    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._new)
        warnings.warn(f"{spec.name} is {self._new} now; the old name goes with 0.4.0", DeprecationWarning, stacklevel=2)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set the one of the old name; the module is not run again


class MovedModules:
    """Finds modules by their old names.

    It comes before the other finders: they would find `timer` in the package that `purgatorio.broker.purgatory` is now,
    and load it a second time, with classes of its own.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that moved; None of every other name."""
        new = new_name(fullname) if fullname.startswith("purgatorio.broker.") else None
        return None if new is None else ModuleSpec(fullname, cast("Loader", _OldName(new)), is_package=True)


def install() -> None:
    """Let imports find modules by their old names."""
    if not any(isinstance(each, MovedModules) for each in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
