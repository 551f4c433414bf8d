"""Texts of others, which clients may have chosen, for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text without characters that could control a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
