"""Names that a scenario gets wrong: the sentence tells the near one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def no_such(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """Return the error for a name that there is not: it tells which there are, and the near one."""
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"there is no {kind} {name!r}, only {', '.join(names)}{hint}")
