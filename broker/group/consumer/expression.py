r"""Regular expressions that subscribe to topics, in RE2's syntax, matched in a time that is bounded (KIP-848).

Python's own matcher backtracks: some expressions take it years. RE2, which the protocol names, never does; nor does
this one. An expression is parsed into a graph of nodes, and all its paths are followed at once. The sets of nodes that
can be reached are kept as numbered states, so that most characters cost one lookup of a character.

Topic names are ASCII, and so are the characters that can match: of the classes of Unicode's categories and scripts
(``\pL``, ``\p{Greek}``), what they have of ASCII.
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
MAX_WORK: Final = 60_000
"""The most nodes that are followed for one expression, over all names: some 15 ms. Ordinary expressions need some
hundreds, whatever the number of topics is."""
STEP_WORK: Final = 20
"""The work of a step that is kept, besides its nodes: bounds the memory, to some megabytes."""
NODE_BYTES: Final = 300
"""The memory of a node of the graph."""
WORK_BYTES: Final = 16
"""The memory that is kept for each node that was followed."""

_MATCHED: Final = 0
"""The node at which the whole expression has matched."""
_NOWHERE: Final = 0
"""The number of the state from which no name matches."""
_START: Final = 1
"""The number of the state before the first character."""


class _Node(NamedTuple):
    """A node of the graph: it takes a character, holds under a condition, or just leads on."""

    characters: frozenset[str] | None
    assertion: str | None
    following: tuple[int, ...]


class _State:
    """Where all paths are after some characters: before the next one is known, which assertions may look at.

    Attributes:
        nodes: those to be followed, in ascending order.
        before: the kind of the last character: "word", "other", or "start" if there was none.
        following: the number of the next state, by character; those that were needed so far.
        takers: for a next character that is "word" or "other", the nodes that take one.
        is_end: whether the expression matches a name that ends here; None: not known yet.
    """

    __slots__ = ("before", "following", "is_end", "nodes", "takers")

    def __init__(self, nodes: tuple[int, ...], before: str) -> None:
        self.nodes = nodes
        self.before = before
        self.following: dict[str, int] = {}
        self.takers: dict[str, list[_Node]] = {}
        self.is_end: bool | None = None


class Expression:
    """A regular expression that matches whole names.

    Attributes:
        work: the nodes that were followed so far.

    Raises:
        ExpressionError: it is malformed, or too large.
    """

    __slots__ = ("_nodes", "_numbers", "_states", "work")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"it is longer than {MAX_LENGTH} characters")
        self._nodes = [_Node(None, None, ())]
        self.work = 0
        first = self._add(parse(text), _MATCHED)
        self._states: list[_State] = []
        self._numbers: dict[tuple[tuple[int, ...], str], int] = {}
        self._number((), "other")  # _NOWHERE
        self._number((first,), "start")  # _START

    @property
    def size_bytes(self) -> int:
        """The bytes that it takes, about."""
        return NODE_BYTES * len(self._nodes) + WORK_BYTES * self.work

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name.

        Raises:
            ExpressionError: it takes too much work.
        """
        states = self._states
        state = states[_START]
        for character in name:
            number = state.following.get(character)
            if number is None:
                number = self._step(state, character)
            if number == _NOWHERE:
                return False
            state = states[number]
        if state.is_end is None:
            state.is_end = _MATCHED in self._follow(state, "end")
        return state.is_end

    def _step(self, state: _State, character: str) -> int:
        """Find the state after a character."""
        kind = "word" if is_word(character) else "other"
        takers = state.takers.get(kind)
        if takers is None:
            nodes = (self._nodes[number] for number in self._follow(state, kind))
            takers = state.takers[kind] = [node for node in nodes if node.characters is not None]
        self._count(STEP_WORK + len(takers))
        after = {node.following[0] for node in takers if node.characters is not None and character in node.characters}
        number = self._number(tuple(sorted(after)), kind) if after else _NOWHERE
        state.following[character] = number
        return number

    def _number(self, nodes: tuple[int, ...], before: str) -> int:
        """Return the number of a state; a new one if there is none."""
        number = self._numbers.get((nodes, before))
        if number is None:
            number = self._numbers[nodes, before] = len(self._states)
            self._states.append(_State(nodes, before))
        return number

    def _follow(self, state: _State, after: str) -> Iterable[int]:
        """Return all nodes that are reached without another character; `after` is the next one, or the end."""
        found = dict.fromkeys(state.nodes)
        waiting = list(found)
        while waiting:
            node = self._nodes[waiting.pop()]
            if node.characters is None and (node.assertion is None or _holds(node.assertion, state.before, after)):
                for number in node.following:
                    if number not in found:
                        found[number] = None
                        waiting.append(number)
        self._count(STEP_WORK + len(found))
        return found

    def _count(self, work: int) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise ExpressionError("it takes too much work to match it")

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
