"""Errors for misspelt names in a scenario, with the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def no_such(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """Return the error for an unknown name: it lists the known ones, and suggests the nearest."""
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"there is no {kind} {name!r}, only {', '.join(names)}{hint}")
