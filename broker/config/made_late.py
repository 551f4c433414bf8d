"""Mappings that are made when they are first asked: few brokers of tests ever are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

V = TypeVar("V")


class MadeLate(Mapping[str, V]):
    """A mapping that its first use makes.

    Args:
        make: returns what it has; called once.
    """

    def __init__(self, make: Callable[[], Mapping[str, V]]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> V:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    @cached_property
    def _made(self) -> Mapping[str, V]:
        return self._make()
