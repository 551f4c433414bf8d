"""The diagrams of states in docs/states.md, made from the tables that the coordinators go by.

    .venv/bin/python scripts/state_diagrams.py            print the page
    .venv/bin/python scripts/state_diagrams.py --write    write it

A test compares the two.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from purgatorio.broker.group.classic import member as classic
from purgatorio.broker.share import in_flight, share_partition
from purgatorio.broker.txn import values
from purgatorio.protocol.transaction_state import TransactionState

PAGE = Path(__file__).resolve().parent.parent / "docs" / "states.md"

HEAD = """\
# States

`scripts/state_diagrams.py --write` makes this page from the tables that the code goes by; a step that no table has
fails an assertion. Groups of the consumer protocol have no table, as their state follows from their members:
`broker/group/consumer/consumer_group.py` says how.
"""


class Diagram(NamedTuple):
    """One diagram: its heading, a sentence, the table, and the name of a state."""

    title: str
    says: str
    transitions: Mapping[Enum, frozenset[Enum]]
    name: Callable[[Enum], str]


def _transaction_name(state: Enum) -> str:
    assert isinstance(state, TransactionState)
    return state.state_name


DIAGRAMS = (
    Diagram(
        "A transactional id",
        "`TRANSITIONS` in `broker/txn/values.py`; the states are those of the records of `__transaction_state`.",
        {old: frozenset(new) for old, new in values.TRANSITIONS.items()},
        _transaction_name,
    ),
    Diagram(
        "A group of the classic protocol",
        "`TRANSITIONS` in `broker/group/classic/member.py`.",
        {old: frozenset(new) for old, new in classic.TRANSITIONS.items()},
        lambda state: str(state.value),
    ),
    Diagram(
        "A share partition",
        "`TRANSITIONS` in `broker/share/share_partition.py`.",
        {old: frozenset(new) for old, new in share_partition.TRANSITIONS.items()},
        lambda state: state.name,
    ),
    Diagram(
        "A record of a share partition",
        "`TRANSITIONS` in `broker/share/in_flight.py`. A change that a member asks for takes place when it is written.",
        {old: frozenset(new) for old, new in in_flight.TRANSITIONS.items()},
        lambda state: state.name,
    ),
)


def page() -> str:
    """The whole page, in Markdown with Mermaid."""
    return "\n".join([HEAD, *map(_section, DIAGRAMS)])


def _section(diagram: Diagram) -> str:
    states = [state for state in type(next(iter(diagram.transitions))) if state in diagram.transitions]
    lines = [f"## {diagram.title}", "", diagram.says, "", "```mermaid", "stateDiagram-v2"]
    lines.append(f"    [*] --> {diagram.name(states[0])}")
    for old in states:
        following = diagram.transitions[old]
        lines += [f"    {diagram.name(old)} --> {diagram.name(new)}" for new in states if new in following]
        if not following:
            lines.append(f"    {diagram.name(old)} --> [*]")
    lines += ["```", ""]
    words = _docstrings(type(states[0]))
    told = [f"* {diagram.name(each)}: {words[each.name]}" for each in states if each.name in words]
    return "\n".join([*lines, *told, ""])


def _docstrings(states: type[Enum]) -> dict[str, str]:
    """The string below each member, in one line."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(states))).body
    assert isinstance(made, ast.ClassDef)
    found: dict[str, str] = {}
    for member, below in zip(made.body, made.body[1:], strict=False):
        match member, below:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str() as text)):
                found[name] = " ".join(text.split())
    return found


def main(argv: Sequence[str]) -> int:
    """Print the page, or write it."""
    if argv == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    elif not argv:
        print(page(), end="")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
