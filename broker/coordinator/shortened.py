"""Ids as people see them: clients choose the ids of groups, members and transactions, which may be 32 KiB long."""

from __future__ import annotations

from typing import Final

MAX_SHOWN: Final = 100
"""The most characters of an id that pages and events show."""


def shortened(an_id: str) -> str:
    """Return an id, cut if it is very long."""
    return an_id if len(an_id) <= MAX_SHOWN else f"{an_id[:MAX_SHOWN]}…"
