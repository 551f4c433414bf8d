r"""Regular expressions that subscribe to topics, in RE2's syntax, matched in a time that is bounded (KIP-848).

Python's own matcher backtracks: some expressions take it years. RE2, which the protocol names, never does; nor does
this one. An expression is parsed into a graph of nodes, and all its paths are followed at once. The sets of nodes that
can be reached are kept, so that most characters cost one lookup.

Topic names are ASCII, and so are the characters that can match. Of RE2's syntax, the classes of Unicode scripts and
categories (``\pL``) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from purgatorio.broker.group.consumer.expression_parser import (
    Alternatives,
    Assertion,
    Characters,
    ExpressionError,
    Repeated,
    Sequence,
    Syntax,
    is_word,
    parse,
)

MAX_LENGTH: Final = 1_000
"""The longest expression."""
MAX_NODES: Final = 1_000
"""The most nodes of the graph; repetitions multiply what is repeated."""
MAX_WORK: Final = 500_000
"""The most nodes that are followed for one expression, over all names; a fraction of a second. Ordinary expressions
need some hundreds, whatever the number of topics is."""
STEP_WORK: Final = 20
"""What each set of nodes that is kept counts for, besides its nodes: bounds the memory, to some megabytes."""

_MATCHED: Final = 0
"""The node at which the whole expression has matched."""


class _Node(NamedTuple):
    """A node of the graph: it takes a character, holds under a condition, or just leads on."""

    characters: frozenset[str] | None
    assertion: str | None
    following: tuple[int, ...]


class _Reached(NamedTuple):
    """Where all paths are after some characters: before the next one is known, which assertions may look at.

    Attributes:
        nodes: those to be followed.
        before: what the last character was: "word", "other", or "start" if there was none.
    """

    nodes: frozenset[int]
    before: str


class Expression:
    """A regular expression that matches whole names.

    Args:
        text: the expression.

    Raises:
        ExpressionError: it is malformed, or too large.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"it is longer than {MAX_LENGTH} characters")
        self._nodes = [_Node(None, None, ())]
        self._work = 0
        self._start = _Reached(frozenset({self._add(parse(text), _MATCHED)}), "start")
        self._after: dict[tuple[_Reached, str], _Reached] = {}
        self._ends: dict[_Reached, bool] = {}

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name.

        Raises:
            ExpressionError: it takes too much work.
        """
        reached = self._start
        for character in name:
            following = self._after.get((reached, character))
            if following is None:
                following = self._after[reached, character] = self._step(reached, character)
            reached = following
            if not reached.nodes:
                return False
        is_match = self._ends.get(reached)
        if is_match is None:
            is_match = self._ends[reached] = _MATCHED in self._follow(reached, "end")
        return is_match

    def _step(self, reached: _Reached, character: str) -> _Reached:
        kind = "word" if is_word(character) else "other"
        nodes = (self._nodes[number] for number in self._follow(reached, kind))
        after = (node.following[0] for node in nodes if node.characters is not None and character in node.characters)
        return _Reached(frozenset(after), kind)

    def _follow(self, reached: _Reached, after: str) -> Iterable[int]:
        """Return all nodes that are reached without another character; `after` tells the next one, or the end."""
        self._work += STEP_WORK
        found = dict.fromkeys(sorted(reached.nodes))
        waiting = list(found)
        while waiting:
            node = self._nodes[waiting.pop()]
            self._work += 1
            if node.characters is None and (node.assertion is None or _holds(node.assertion, reached.before, after)):
                for number in node.following:
                    if number not in found:
                        found[number] = None
                        waiting.append(number)
        if self._work > MAX_WORK:
            raise ExpressionError("it takes too much work to match it")
        return found

    # --- the graph ---

    def _node(self, characters: frozenset[str] | None, assertion: str | None, *following: int) -> int:
        if len(self._nodes) >= MAX_NODES:
            raise ExpressionError("it is too large, or repeats too much")
        self._nodes.append(_Node(characters, assertion, following))
        return len(self._nodes) - 1

    def _add(self, syntax: Syntax, following: int) -> int:
        """Add the nodes of a part of the expression, which lead on to `following`; return the first."""
        if isinstance(syntax, Characters):
            return self._node(syntax.characters, None, following)
        if isinstance(syntax, Assertion):
            return self._node(None, syntax.kind, following)
        if isinstance(syntax, Alternatives):
            return self._node(None, None, *(self._add(each, following) for each in syntax.alternatives))
        if isinstance(syntax, Sequence):
            for part in reversed(syntax.parts):
                following = self._add(part, following)
            return following
        return self._add_repeated(syntax, following)

    def _add_repeated(self, syntax: Repeated, following: int) -> int:
        first = following
        if syntax.most is None:
            again = self._node(None, None, following)
            body = self._add(syntax.part, again)
            self._nodes[again] = _Node(None, None, (body, following))
            first = again
        else:
            for _ in range(syntax.most - syntax.least):
                first = self._node(None, None, self._add(syntax.part, first), following)
        for _ in range(syntax.least):
            first = self._add(syntax.part, first)
        return first


def _holds(assertion: str, before: str, after: str) -> bool:
    """Whether a place in the name, between two characters, is what an assertion asks for."""
    if assertion == "start":
        return before == "start"
    if assertion == "end":
        return after == "end"
    is_boundary = (before == "word") != (after == "word")
    return is_boundary if assertion == "boundary" else not is_boundary
