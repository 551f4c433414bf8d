"""The topics that the regular expressions of groups match, as topics come and go.

An expression is matched once for all groups that subscribe by it: with every topic when it is first needed, then with
those that come. A few topics are matched at once, and many in steps. Until the last step the groups get no topic of it,
as in Kafka, whose coordinator resolves expressions beside its requests. Then the groups are marked, and look at their
next heartbeats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.expression import Expression
from purgatorio.broker.group.consumer.expression_parser import ExpressionError
from purgatorio.broker.group.memory import ENTRY_BYTES, GroupMemory, text_bytes
from purgatorio.broker.group.modern.modern_group import SubscriptionIndex
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.time.long_work import Steps, take_slice
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

MAX_UNUSED: Final = 10
"""The most expressions of one broker that are kept without a group: of members whose heartbeats were refused."""

NAME_COST: Final = 2
"""The cost of matching a name (see `LongWork`), besides a microsecond for ten characters. A character of an
expression takes as long to be parsed; one that is hard to match takes up to 15 ms more, once."""


class MatchedExpression:
    """A regular expression, and the topics that it matches.

    Attributes:
        topics: those that it matches; None: not known yet.
        found: while it is matched for the first time, those that were found.
        is_begun: whether it was matched with topics.
        gave_up: whether it takes too much work, so that it matches nothing.
        users: the groups that subscribe by it.
        memory: the bytes that it takes.
    """

    __slots__ = ("_expression", "found", "gave_up", "is_begun", "memory", "text", "topics", "users")

    def __init__(self, text: str) -> None:
        self.text = text
        self.topics: frozenset[str] | None = None
        self.found: dict[str, None] = {}
        self.is_begun = False
        self.gave_up = False
        self.users: dict[ConsumerGroup, None] = {}
        self.memory = GroupMemory()
        self._expression: Expression | None = None
        self.recount()

    def parse(self) -> Expression:
        """Return the expression as it matches names.

        Raises:
            ExpressionError: it is malformed, or too large.
        """
        if self._expression is None:
            self._expression = Expression(self.text)
        return self._expression

    def recount(self) -> None:
        """Count the bytes that it takes now."""
        names = len(self.found) + (0 if self.topics is None else len(self.topics))
        size_bytes = text_bytes(self.text) + (2 + names) * ENTRY_BYTES
        if self._expression is not None:
            size_bytes += self._expression.size_bytes
        self.memory.change(size_bytes - self.memory.used_bytes)

    def matches(self, name: str) -> bool:
        """Return whether it matches a topic, an internal one too, as in Kafka.

        An expression that takes too much work matches no topics.
        """
        if self.gave_up:
            return False
        try:
            return self.parse().matches(name)
        except ExpressionError as error:
            logger.warning("a regular expression matches no topics", expression=self.text[:100], why=str(error))
            self.gave_up = True
            self.found.clear()
            return False


class Expressions:
    """The regular expressions of one broker's groups."""

    def __init__(self, services: GroupServices) -> None:
        self._services = services
        self._wake = services.work.whenever_woken(self.steps)
        self._known: dict[str, MatchedExpression] = {}
        self._unused: dict[str, None] = {}
        self._texts_of: dict[ConsumerGroup, dict[str, None]] = {}
        self._changed: dict[str, None] = {}  # the topics that came or went since `_follow` began
        self._is_following = False
        self._work: dict[Steps, None] = {}
        self.memory = GroupMemory()
        self.memory.enter(services.memory)

    def __len__(self) -> int:
        return len(self._known)

    # --- for heartbeats ---

    def check(self, text: str) -> None:
        """Check an expression.

        Raises:
            CoordinatorError: INVALID_REGULAR_EXPRESSION; GROUP_MAX_SIZE_REACHED if there is no memory for it.
        """
        known = self._find(text)
        try:
            known.parse()
        except ExpressionError as error:
            self._drop_unused(text)
            message = f"the regular expression {text[:100]!r} is refused: {error}"
            raise CoordinatorError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error
        known.recount()
        if not known.users:
            self._check_room(known)

    def _check_room(self, known: MatchedExpression) -> None:
        try:
            self._services.check_room(known.memory.used_bytes)
        except CoordinatorError:
            self._drop_unused(known.text)
            raise

    def topics_of(self, text: str) -> frozenset[str] | None:
        """Return the topics that an expression matches; none if it takes too much work.

        Returns:
            None if it is not known yet: the groups that subscribe by it are marked when it is.
        """
        known = self._find(text)
        if not known.is_begun:
            known.is_begun = True
            self._begin(self._match_all(known))
        return known.topics

    def use(self, group: ConsumerGroup, texts: Iterable[str]) -> None:
        """Note by which expressions a group subscribes now; by none when it has ended."""
        before = self._texts_of.pop(group, {})
        after = dict.fromkeys(texts)
        if after:
            self._texts_of[group] = after
        for text in after:
            if text not in before:
                self._find(text).users[group] = None
                self._unused.pop(text, None)
        for text in before:
            if text not in after:
                known = self._known[text]
                del known.users[group]
                if not known.users:
                    self._drop(text)

    def _find(self, text: str) -> MatchedExpression:
        known = self._known.get(text)
        if known is None:
            if len(self._unused) >= MAX_UNUSED:
                self._drop_unused(next(iter(self._unused)))
            known = self._known[text] = MatchedExpression(text)
            known.memory.enter(self.memory)
            self._unused[text] = None
        return known

    def _drop_unused(self, text: str) -> None:
        if text in self._unused:
            del self._unused[text]
            self._drop(text)

    def _drop(self, text: str) -> None:
        self._known.pop(text).memory.leave()

    # --- topics that come and go ---

    def topics_changed(self, names: Collection[str]) -> None:
        """Have the groups look whose expressions match topics that came or went."""
        self._changed.update(dict.fromkeys(names))
        if self._known and not self._is_following:
            self._is_following = True
            self._begin(self._follow())
        elif not self._known:
            self._changed.clear()

    # --- in steps ---

    def steps(self) -> Steps:
        """Match the expressions that wait, in steps between which the loop does its other work."""
        while self._work:
            steps = next(iter(self._work))
            yield from steps
            del self._work[steps]
            yield 0

    def _begin(self, steps: Steps) -> None:
        """Take the first steps now, which are all of few topics, and leave the others to `steps`."""
        _, goes_on = take_slice(steps)
        if goes_on:
            self._work[steps] = None
            self._wake()

    def _match_all(self, known: MatchedExpression) -> Steps:
        """Match an expression with all topics for the first time."""
        yield NAME_COST * (1 + len(known.text))
        for name in self._services.image().topics:
            if self._known.get(known.text) is not known:
                return
            if known.matches(name):
                known.found[name] = None
                known.recount()
            yield NAME_COST + len(name) // 10
        existing = self._services.image().topics
        topics = frozenset(name for name in known.found if name in existing)
        known.found.clear()
        yield from self._tell(known, topics)

    def _follow(self) -> Steps:
        """Match all expressions with the topics that came or went."""
        while self._changed:
            names, self._changed = self._changed, {}
            for known in list(self._known.values()):
                yield NAME_COST
                if not known.is_begun:
                    continue
                came: dict[str, None] = {}
                for name in names:
                    if name in self._services.image().topics and known.matches(name):
                        came[name] = None
                    yield NAME_COST + len(name) // 10
                if known.topics is None:
                    known.found.update(came)
                    continue
                topics = frozenset() if known.gave_up else known.topics.difference(names).union(came)
                yield NAME_COST + len(topics) // 10
                if topics != known.topics:
                    yield from self._tell(known, topics)
        self._is_following = False

    @staticmethod
    def _tell(known: MatchedExpression, topics: frozenset[str]) -> Steps:
        """Have the groups look at the topics that an expression matches now."""
        known.topics = topics
        known.recount()
        for group in list(known.users):
            group.stale_expressions[known.text] = None
            group.is_metadata_stale = True
            yield 1


class ExpressionIndex(SubscriptionIndex[ConsumerGroup]):
    """The consumer groups of one broker by the topics that they subscribe to; the topics need not exist.

    Args:
        expressions: learns by which regular expressions each group subscribes.
    """

    def __init__(self, expressions: Expressions) -> None:
        super().__init__(ConsumerGroup.subscribed_topics)
        self._expressions = expressions

    def refresh(self, group: ConsumerGroup) -> None:
        """Note the topics of a group whose subscriptions have changed."""
        super().refresh(group)
        self._expressions.use(group, (*group.counts.expressions, *group.expressions))

    def forget(self, group: ConsumerGroup) -> None:
        """Forget a group that this broker no longer coordinates, or that has ended."""
        super().forget(group)
        self._expressions.use(group, ())
