"""The kinds of operations that the report knows, in its order, each with its colour; it shows others, too."""

from __future__ import annotations

from typing import Final

# made by scripts/kinds.py: begin
COLOURS: Final = {
    "produce": "#3f7fd9",
    "consumer fetch": "#e0862b",
    "follower fetch": "#2a9d8f",
    "delete records": "#8d63d2",
    "topic": "#b0724f",
    "elect leader": "#d1497a",
}
# made by scripts/kinds.py: end
