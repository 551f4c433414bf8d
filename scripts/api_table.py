"""The table in docs/apis.md of the APIs that are answered, made from their registrations.

    .venv/bin/python scripts/api_table.py            print it
    .venv/bin/python scripts/api_table.py --write    put it between the page's markers

A test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from purgatorio.broker.api.routes import APIS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "apis.md"
BEGIN, END = "<!-- apis: begin -->\n", "<!-- apis: end -->"
COLUMNS = 2


def table() -> str:
    """The table in Markdown: each API with the versions that are answered, by key, in columns from top to bottom."""
    rows = [(api.key.name.title().replace("_", ""), _versions(api.answered_versions)) for api in APIS]
    height = -(-len(rows) // COLUMNS)
    columns = [rows[start : start + height] for start in range(0, len(rows), height)]
    lines = ["|" + " API | versions |" * COLUMNS, "|" + "---|---|" * COLUMNS]
    for place in range(height):
        cells = [column[place] if place < len(column) else ("", "") for column in columns]
        lines.append("|" + "".join(f" {name} | {versions} |" for name, versions in cells))
    return "\n".join(lines) + "\n"


def _versions(versions: range) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}–{versions[-1]}"


def in_page(text: str) -> str:
    """What stands between the markers.

    Raises:
        ValueError: they are not there.
    """
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def main(argv: Sequence[str]) -> int:
    """Print the table, or write it into the page."""
    if argv == ["--write"]:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text.replace(BEGIN + in_page(text) + END, BEGIN + table() + END), encoding="utf-8")
    elif not argv:
        print(table(), end="")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
