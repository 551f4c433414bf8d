"""A client quota in a test's hands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType


class Quota:
    """Quotas of one entity; a context manager, which removes them at its end.

    Args:
        told: the entity and its quotas, in words.
        remove: removes them.
    """

    def __init__(self, told: str, remove: Callable[[], None]) -> None:
        self._told = told
        self._remove = remove

    def __repr__(self) -> str:
        return f"<Quota {self._told}>"

    def remove(self) -> None:
        """Remove the quotas; connections that are muted stay so until their time is over."""
        self._remove()

    def __enter__(self) -> Quota:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def entity_of(**names: str | None) -> Sequence[tuple[str, str | None]]:
    """Return the parts of an entity: those of the names that are given; an empty one is the default."""
    return [(kind.replace("_", "-"), name or None) for kind, name in names.items() if name is not None]


def told(entity: Sequence[tuple[str, str | None]], quotas: Mapping[str, float]) -> str:
    """Return entity and quotas in words."""
    named = ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity)
    return f"{named}: " + ", ".join(f"{key}={value:g}" for key, value in quotas.items())
