"""Takes the table of kinds of purgatories to files that are not Python, or may not import the broker.

Usage:
    .venv/bin/python scripts/kinds.py --write

Writes the lines between "made by scripts/kinds.py: begin" and "… end" of the page's script and style sheet and of the
pipeline's report. A test compares them with the table, ``broker/causes/kinds.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from purgatorio.broker.causes.kinds import ACQUISITION_LOCK, FOLLOWER_FETCH, Holds, Kind, shown

ROOT: Final = Path(__file__).resolve().parents[1]
MADE: Final = "made by scripts/kinds.py:"


def script() -> Iterator[str]:
    """Yield the table for the page: of each kind what differs from the others, in its words."""
    yield f'export const LOCKS = "{ACQUISITION_LOCK.purgatory}"; // the purgatory of acquisition locks'
    yield "const KINDS = {"
    for kind in shown():
        if told := _told(kind):
            values = ", ".join(f"{name}: {json.dumps(value)}" for name, value in told.items())
            yield f'  "{kind.noun}": {{ {values} }},'
    yield "};"


def _told(kind: Kind) -> dict[str, Any]:
    told = {
        "title": kind.title,
        "coloured": kind.colours is not None,
        "offered": kind.is_offered,
        "follower": kind is FOLLOWER_FETCH,
        "session": kind.holds is Holds.SESSIONS,
        "poll": kind.is_poll,
        "rank": None if kind.rank == Kind._field_defaults["rank"] else kind.rank,
    }
    return {name: value for name, value in told.items() if value is not None and value is not False}


def styles() -> Iterator[str]:
    """Yield the colours of kinds on both grounds, and the class of each."""
    coloured = [(kind.noun.replace(" ", "-"), kind.colours) for kind in shown() if kind.colours is not None]
    yield ":root {"
    yield from (f"  --{name}: {colours.dark};" for name, colours in coloured)
    yield "}"
    yield "@media (prefers-color-scheme: light) {"
    yield "  :root {"
    yield from (f"    --{name}: {colours.light};" for name, colours in coloured)
    yield "  }"
    yield "}"
    yield from (f".kind-{name} {{ --kind: var(--{name}); }}" for name, _ in coloured)


def plots() -> Iterator[str]:
    """Yield the colours of the pipeline's report."""
    yield "COLOURS: Final = {"
    yield from (f'    "{kind.noun}": "{kind.plotted}",' for kind in shown() if kind.plotted is not None)
    yield "}"


PLACES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "admin/web/static/kinds.js": script,
    "admin/web/static/style.css": styles,
    "pipeline/delays/kinds.py": plots,
}
"""Where the table is taken, and what it is there."""


def written(file: str) -> str:
    """Return a file's text with the table as it is now.

    Raises:
        ValueError: it has no place for it.
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    begin, end = (
        next((at for at, line in enumerate(lines) if f"{MADE} {word}" in line), -1) for word in ("begin", "end")
    )
    if not 0 <= begin < end:
        raise ValueError(f"{file} has no lines with '{MADE} begin' and '{MADE} end'")
    return "".join([*lines[: begin + 1], *(f"{line}\n" for line in PLACES[file]()), *lines[end:]])


def main(arguments: Sequence[str]) -> int:
    """Write all files; return the exit code."""
    if arguments != ["--write"]:
        print(__doc__, file=sys.stderr)
        return 2
    for file in PLACES:
        (ROOT / file).write_text(written(file), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
