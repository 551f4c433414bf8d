"""Rows of a view: their cells, their details, and the effects of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from purgatorio.admin.cli.command import seconds_of
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.operations.declare import Operation

Answer = dict[str, Any]

MAX_LINES: Final = 400
"""Lines that the details of a row have at most."""
MAX_CELL: Final = 300
"""Characters of a cell."""


class Deed(NamedTuple):
    """The effect of a key on a row.

    Attributes:
        says: what is done, as the end of a sentence: "hold the fetches of broker 3".
        path, body: the POST for it, below ``/api/v1/``.
    """

    says: str
    path: str
    body: Answer

    @classmethod
    def of(cls, says: str, kind: type[Operation], **given: Any) -> Deed:
        """Return an operation of the admin HTTP with what is given to it."""
        return cls(says, *kind.request(given))


class Row(NamedTuple):
    """A line of a view.

    Attributes:
        key: unique within the view.
        why: its details, a line each.
        deeds: the effects of the keys h, r, x and k.
        mark: "bad" if it is in trouble, "head" for a line above others, else "".
    """

    key: str
    cells: tuple[str, ...]
    why: tuple[str, ...]
    deeds: Mapping[str, Deed] = MappingProxyType({})
    mark: str = ""

    def has(self, text: str) -> bool:
        """Whether one of the cells has the text, in any case."""
        return any(text.lower() in cell.lower() for cell in self.cells)


def cells(*values: object) -> tuple[str, ...]:
    """Return values as a line shows them. Clients have chosen some: nothing in them acts on the terminal."""
    return tuple("-" if value is None else printable(str(value))[:MAX_CELL] for value in values)


def seconds(ms: int | None) -> str:
    """Return a time in seconds; a dash for None."""
    return seconds_of(ms)


def fields_of(answer: Mapping[str, Any], *, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the fields of an answer, an indented line for each value."""
    left_out = frozenset(without)
    found = list(_lines({name: value for name, value in answer.items() if name not in left_out}, ""))
    more = len(found) - MAX_LINES
    return (*found[:MAX_LINES], *([f"and {more} more lines"] if more > 0 else []))


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, (Mapping, list)) and inner:
                yield f"{indent}{printable(str(name))}:"
                yield from _lines(inner, f"{indent}  ")
            else:
                yield f"{indent}{printable(str(name))}: {_scalar(inner)}"
    else:
        for each in value:
            if isinstance(each, Mapping):
                first, *others = _lines(each, "") if each else ["{}"]
                yield f"{indent}- {first}"
                yield from (f"{indent}  {line}" for line in others)
            else:
                yield f"{indent}- {_scalar(each)}"


def _scalar(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))[:MAX_CELL]
