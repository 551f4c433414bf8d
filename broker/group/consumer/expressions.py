"""Which topics the regular expressions of groups match, as topics come and go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.expression import Expression
from purgatorio.broker.group.consumer.expression_parser import ExpressionError
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

MAX_CACHED: Final = 100
"""The most parsed expressions of one broker; an older one is parsed again when it is needed."""


class Expressions:
    """Matches topics with regular expressions. Internal topics match none: a group must not consume its own commits."""

    def __init__(self) -> None:
        self._parsed: dict[str, Expression] = {}

    def check(self, text: str) -> None:
        """Check an expression.

        Raises:
            CoordinatorError: INVALID_REGULAR_EXPRESSION.
        """
        try:
            self._parse(text)
        except ExpressionError as error:
            message = f"the regular expression {text[:100]!r} is refused: {error}"
            raise CoordinatorError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error

    def matching(self, text: str, topics: Iterable[str]) -> frozenset[str]:
        """Return the topics that an expression matches; none if it takes too much work."""
        try:
            expression = self._parse(text)
            return frozenset(name for name in topics if expression.matches(name) and not is_internal(name))
        except ExpressionError as error:
            logger.warning("a regular expression matches no topics", expression=text[:100], why=str(error))
            return frozenset()

    def _parse(self, text: str) -> Expression:
        expression = self._parsed.pop(text, None) or Expression(text)
        if len(self._parsed) >= MAX_CACHED:
            del self._parsed[next(iter(self._parsed))]
        self._parsed[text] = expression  # the one that was used last stands last
        return expression
