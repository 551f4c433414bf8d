"""How a mutant is declared: a rule, the patches that switch it off, and the anomalies that prove it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

Patches = Iterator[contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class BrokerRule:
    """A rule that can be switched off.

    Attributes:
        patches: switch it off; the docstring says what the rule is, and what happens without it.
        found_by: the kinds of anomaly that prove that the rule is off; others may come from a broken mutant.
    """

    patches: Callable[[], Patches]
    found_by: frozenset[str]


Declare = Callable[[str, Iterable[str]], Callable[[Callable[[], Patches]], None]]
"""Takes the name of a rule and the kinds of anomaly that prove it, and decorates the function of its patches."""


def declares_in(rules: dict[str, BrokerRule]) -> Declare:
    """Return a decorator that adds rules to these."""

    def rule(name: str, found_by: Iterable[str]) -> Callable[[Callable[[], Patches]], None]:
        def declare(patches: Callable[[], Patches]) -> None:
            rules[name] = BrokerRule(patches, frozenset(found_by))

        return declare

    return rule


class WrongSignature(TypeError):
    """A mutant's function has other parameters than the one that it replaces."""


class CompiledFunction(RuntimeError):
    """A function cannot be replaced in a compiled module: its neighbours call it directly."""


def replaced(owner: object, name: str, function: Callable[..., Any]) -> contextlib.AbstractContextManager[Any]:
    """Replace a function of a class or module while the context lasts.

    Raises:
        WrongSignature: the parameters differ in name, kind or default; `self` may have another name.
        CompiledFunction: the function is compiled (docs/compiled.md).
    """
    if not inspect.isfunction(getattr(owner, name)):
        raise CompiledFunction(f"{name} is compiled, and so cannot be replaced: ./scripts/compile --clean")
    static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    is_method = inspect.isclass(owner) and not static
    wanted, given = (_parameters(each, is_method) for each in (getattr(owner, name), function))
    if wanted != given:
        raise WrongSignature(f"{name} takes {wanted}, its replacement {given}")
    return mock.patch.object(owner, name, staticmethod(function) if static else function)


def _parameters(function: Callable[..., Any], is_method: bool) -> list[tuple[str, str, object]]:
    parameters = [(each.name, each.kind.name, each.default) for each in inspect.signature(function).parameters.values()]
    return parameters[1:] if is_method else parameters
