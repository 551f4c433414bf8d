"""A setting: its default, its type and bounds, its documentation, and how its value is read and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args, get_type_hints

from purgatorio.broker.log.config_keys import ConfigType

_PLAIN: Final = frozenset({"bool", "int", "int | None", "float", "str", "str | None", "dict[str, Any]"})
"""Annotations that name no choices, so that they need not be evaluated: it takes two milliseconds."""
_NUMBERS: Final = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG)
_TRUE: Final = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "off", "0"})


class SettingsError(ValueError):
    """Settings cannot be used.

    Attributes:
        problems: one line each, with the setting and what is wrong, without its value: that may be a password.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Setting:
    """One setting, as it is declared.

    Attributes:
        name: its name as a field, `log_retention_ms`; `owner` is the class of settings that has it.
        annotation: its type in Python as the class has it, in text.
        default: its value unless it is set; None: it is not set.
        type: as DescribeConfigs answers it.
        description: what it does, in a sentence.
        low: the smallest number, or None.
        high: the largest number, or None.
        min_length: the fewest characters of a text.
        pattern: a regular expression that a whole text must match, or None.
    """

    __slots__ = (
        "annotation",
        "default",
        "description",
        "high",
        "low",
        "min_length",
        "name",
        "owner",
        "pattern",
        "type",
    )

    def __init__(
        self,
        default: object,
        description: str,
        kind: ConfigType,
        *,
        low: float | None = None,
        high: float | None = None,
        min_length: int = 0,
        pattern: str | None = None,
    ) -> None:
        self.owner: type = object
        self.name = self.annotation = ""
        self.default = default
        self.description = description
        self.type = kind
        self.low = low
        self.high = high
        self.min_length = min_length
        self.pattern = pattern

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values that it may have; empty: any."""
        return () if self.annotation in _PLAIN else get_args(get_type_hints(self.owner)[self.name])

    def read(self, text: str) -> Any:
        """Return the value that a text of the environment or of a command stands for.

        Raises:
            ValueError: there is none; the message is the end of a sentence: "must be a whole number".
        """
        return self.checked(self.parsed(text))

    def parsed(self, text: str) -> object:
        """Return what a text stands for, which may not be allowed; the text itself if it stands for nothing."""
        if self.type is ConfigType.BOOLEAN:
            return True if text.lower() in _TRUE else False if text.lower() in _FALSE else text
        if self.type is ConfigType.LIST:
            return ",".join(each.strip() for each in text.split(","))
        if self.type in _NUMBERS:
            return _number(int, re.sub(r"\.0+$", "", text.strip()))
        return _number(float, text) if self.type is ConfigType.DOUBLE else text

    def checked(self, value: object) -> Any:
        """Return a value that has its own type already, as Python and TOML have it.

        Raises:
            ValueError: it is not allowed; the message is the end of a sentence: "must be at least 1".
        """
        if value is None and self.default is None:
            return None
        if self.type is ConfigType.BOOLEAN:
            _ask(isinstance(value, bool), "must be true or false")
        elif self.type in _NUMBERS:
            _ask(isinstance(value, int) and not isinstance(value, bool), "must be a whole number")
            self._check_bounds(value)
        elif self.type is ConfigType.DOUBLE:
            _ask(isinstance(value, int | float) and not isinstance(value, bool), "must be a number")
            self._check_bounds(value)
            return float(value)  # type: ignore[arg-type]
        elif isinstance(self.default, Mapping):
            _ask(isinstance(value, Mapping), "must be a table")
            return dict(value)  # type: ignore[call-overload]
        else:
            _ask(isinstance(value, str), "must be text")
            self._check_text(str(value))
        return value

    def _check_bounds(self, value: Any) -> None:
        _ask(self.low is None or value >= self.low, f"must be at least {self.low}")
        _ask(self.high is None or value <= self.high, f"must be at most {self.high}")

    def _check_text(self, text: str) -> None:
        if len(text) < self.min_length:
            few = self.min_length > 1
            raise ValueError(f"must have at least {self.min_length} characters" if few else "must not be empty")
        if self.pattern is not None:
            _ask(re.fullmatch(self.pattern, text) is not None, f"must match {self.pattern}")
        if choices := self.choices:
            *first, last = map(repr, choices)
            _ask(text in choices, f"must be {', '.join(first)}{' or ' if first else ''}{last}")


def _number(kind: type[int] | type[float], text: str) -> int | float | str:
    try:
        return kind(text)
    except ValueError:
        return text  # which is then refused for its type


def _ask(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)
