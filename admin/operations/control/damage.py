"""Checks of data that is read from a folder: each raises `Damaged` with a sentence about the value."""

from __future__ import annotations

import reprlib
from typing import Any, Final

from purgatorio.broker.log.setting import MAX_LONG

_MAX_SHOWN_CHARS: Final = 200


class Damaged(Exception):
    """No broker can have written this; the message says why, without the file's name."""


def require(holds: bool, otherwise: str) -> None:
    """Check something.

    Raises:
        Damaged: it does not hold; `otherwise` is the message.
    """
    if not holds:
        raise Damaged(otherwise)


def whole(value: Any, name: str, *, low: int = 0, high: int = MAX_LONG) -> int:
    """Return a whole number.

    Raises:
        Damaged: it is none, or beyond a bound.
    """
    if type(value) is not int or not low <= value <= high:  # a truth value is an int, too
        raise Damaged(f"{name} is a whole number from {low} to {high}, not {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a value for a message: on one line, and not long."""
    return reprlib.repr(value)


def one_line(error: Exception) -> str:
    """Return the message of an error on one line, and not long."""
    text = " ".join(str(error)[:_MAX_SHOWN_CHARS].split())
    return "".join(char if char.isprintable() else "?" for char in text)
