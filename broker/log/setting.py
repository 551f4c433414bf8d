"""A setting: its names, its type and bounds, its documentation, and how its value is read and checked.

The configs of topics (`purgatorio.broker.log.config`) and of groups are declared as those of brokers and clusters are
(`purgatorio.broker.config`). A value comes as Python and TOML have it (`Setting.checked`), as text of a file, of the
environment or of a command (`Setting.read`), or as text that a client has sent (`Setting.parse`), which may be spelt in
fewer ways, and is refused in other words.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack, get_args, get_type_hints

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
_PLAIN: Final = frozenset({"bool", "int", "int | None", "float", "str", "str | None", "dict[str, Any]"})
"""Annotations that name no choices, so that they need not be evaluated: it takes two milliseconds."""
_TRUE: Final = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "off", "0"})


class ConfigType(enum.IntEnum):
    """The type of a config, with the codes that DescribeConfigs answers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_NUMBERS: Final = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG)


class InvalidConfig(ValueError):
    """A config that cannot be set.

    Attributes:
        name: its dotted name.
        why: what is wrong, without the name.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class SettingOptions(TypedDict, total=False):
    """The parts of a declaration that few settings have; see `Setting`, where `names` are the dotted ones."""

    min_length: int
    pattern: str | None
    only: Sequence[str]
    rule: Callable[[Any], None]
    names: Sequence[str]
    dynamic: bool


class BoundedOptions(SettingOptions, total=False):
    """These, and the smallest and the largest number."""

    ge: float | None
    le: float | None


class Setting:
    """One setting, as it is declared.

    Attributes:
        name: its name as a field, `log_retention_ms`; `owner` is the class of settings that has it.
        annotation: its type in Python as the class has it, in text.
        dotted: its name in Kafka, `log.retention.ms`.
        other_names: further names in Kafka, dotted.
        default: its value unless it is set; None: it is not set.
        type: as DescribeConfigs answers it.
        doc: what it does, in a sentence.
        low: the smallest number, or None.
        high: the largest number, or None.
        min_length: the fewest characters of a text.
        pattern: a regular expression that a whole text must match, or None.
        only: the texts that a client may set, or the items of a list; empty: any.
        rule: raises a ValueError for a value that a client may not set, though it has the right type; or None.
        is_dynamic: whether it is one of Kafka's dynamic broker configs (KIP-226), and no default of topics.
        of_one_broker: whether clients may set it for one broker only, not for all.
        broker_name: the dotted name of the broker's setting that is the default of a topic or group config; None: a
            broker has none for it.
    """

    __slots__ = (
        "annotation",
        "broker_name",
        "default",
        "doc",
        "dotted",
        "high",
        "is_dynamic",
        "low",
        "min_length",
        "name",
        "of_one_broker",
        "only",
        "other_names",
        "owner",
        "pattern",
        "rule",
        "type",
    )

    def __init__(self, default: object, doc: str, kind: ConfigType, **more: Unpack[BoundedOptions]) -> None:
        self.owner: type = object
        self.name = self.annotation = ""
        self.default: Any = default
        self.doc = doc
        self.type = kind
        self.low = more.get("ge")
        self.high = more.get("le")
        self.min_length = more.get("min_length", 0)
        self.pattern = more.get("pattern")
        self.only = tuple(more.get("only", ()))
        self.rule = more.get("rule")
        self.dotted, *others = more.get("names") or ("",)
        self.other_names = tuple(others)
        self.is_dynamic = more.get("dynamic", False)
        self.of_one_broker = False
        self.broker_name: str | None = None

    def named(self, name: str) -> Setting:
        """Give the setting its name as a field, and by that its name in Kafka, unless it has one; return it."""
        self.name = name
        self.dotted = self.dotted or name.replace("_", ".")
        return self

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values that its annotation allows; empty: any."""
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

    def parse(self, text: str) -> Any:
        """Return the value of a text that a client has sent, which may be spelt in one way only; of a list a tuple.

        Raises:
            ValueError: the client may not set it; the message says why: "'x' is not a whole number".
        """
        value = self._sent(text)
        if self.rule is not None:
            self.rule(value)
        return value

    def _sent(self, text: str) -> Any:
        if self.type is ConfigType.BOOLEAN:
            _ask(text.lower() in ("true", "false"), f"'{text}' is neither true nor false")
            return text.lower() == "true"
        if self.type in _NUMBERS or self.type is ConfigType.DOUBLE:
            return self._sent_number(text)
        if self.type is not ConfigType.LIST:
            self._check_only(text)
            return text
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        for item in items:
            self._check_only(item)
        return tuple(dict.fromkeys(items)) if self.only else items

    def _sent_number(self, text: str) -> int | float:
        is_whole = self.type in _NUMBERS
        value = _number(int if is_whole else float, text)
        if isinstance(value, str):
            raise ValueError(f"'{text}' is not a {'whole ' * is_whole}number")
        assert self.low is not None
        assert self.high is not None
        between = f"{self.low} and {self.high}" if is_whole else f"{self.low:g} and {self.high:g}"
        _ask(self.low <= value <= self.high, f"{value if is_whole else text} is not between {between}")
        return value

    def _check_only(self, text: str) -> None:
        _ask(not self.only or text in self.only, f"'{text}' is not one of {', '.join(self.only)}")

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
            *first, last = choices
            _ask(text in choices, f"must be {', '.join(first)}{' or ' if first else ''}{last}")


def _number(kind: type[int] | type[float], text: str) -> int | float | str:
    try:
        return kind(text)
    except ValueError:
        return text  # which is then refused for its type


def _ask(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)


def config_text(value: Any) -> str:
    """A value in the text form of Kafka's configuration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def number(
    default: int, doc: str, *, ge: int = 0, le: int | None = None, long: bool = False, **more: Unpack[SettingOptions]
) -> Any:
    """Declare a setting of type INT, or LONG, from `ge` to `le` (not given: the type's largest number)."""
    bound = le if le is not None else MAX_LONG if long else MAX_INT
    return Setting(default, doc, ConfigType.LONG if long else ConfigType.INT, ge=ge, le=bound, **more)


def flag(default: bool, doc: str, **more: Unpack[SettingOptions]) -> Any:
    """Declare a setting of type BOOLEAN."""
    return Setting(default, doc, ConfigType.BOOLEAN, **more)


def text(default: str | None, doc: str, **more: Unpack[SettingOptions]) -> Any:
    """Declare a setting of type STRING; a field's type may name choices, as a `Literal`."""
    return Setting(default, doc, ConfigType.STRING, **more)


def other(default: object, doc: str, kind: ConfigType, **more: Unpack[BoundedOptions]) -> Any:
    """Declare a setting of any type. One whose default is None may be None; what it is else, follows from `kind`."""
    return Setting(default, doc, kind, **more)
