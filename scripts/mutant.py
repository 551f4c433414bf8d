"""One change of the source, which unit tests should notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One change of the source.

    Attributes:
        file: the source file.
        old: the text to replace; it is there once.
        new: its replacement.
        tests: the tests that should notice.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
