"""Declarations of topic configs: name, type, bounds, documentation, and the parser of its text.

The configs themselves are declared in `purgatorio.broker.log.config`, each by one of the functions below.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


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


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One topic config and, where there is one, the broker's setting that is its default.

    Attributes:
        name: dotted, as Kafka's.
        type: as DescribeConfigs answers it.
        default: the default, of the broker's setting too.
        doc: what it does, in a sentence.
        parse: from text to the value; raises ValueError that says why not.
        broker_name: the dotted name of the broker's setting; None: a broker has no setting for it.
        low: the smallest number, None if it is no number.
        high: the largest number, likewise.
        of_one_broker: whether it can be set for one broker only, not for all.
    """

    name: str
    type: ConfigType
    default: Any
    doc: str
    parse: Callable[[str], Any]
    broker_name: str | None = None
    low: float | None = None
    high: float | None = None
    of_one_broker: bool = False

    @property
    def field_name(self) -> str:
        """The name of its field in `LogConfig`."""
        return self.name.replace(".", "_")

    @property
    def broker_field_name(self) -> str | None:
        """The name of the broker's setting as a field in `BrokerConfig`."""
        return self.broker_name and self.broker_name.replace(".", "_")


def config_text(value: Any) -> str:
    """A value in the text form of Kafka's configuration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def whole_number(
    name: str,
    default: int,
    doc: str,
    *,
    low: int,
    high: int = MAX_INT,
    kind: ConfigType = ConfigType.INT,
    broker: str | None = None,
    without: Sequence[int] = (),
) -> Any:
    """Declare a config of type INT, from `low` to `high` without the numbers in `without`."""
    return _declare(
        number_key(name, default, doc, low=low, high=high, kind=kind, broker=broker, without=without),
    )


def number_key(
    name: str,
    default: int,
    doc: str,
    *,
    low: int,
    high: int = MAX_INT,
    kind: ConfigType = ConfigType.INT,
    broker: str | None = None,
    without: Sequence[int] = (),
) -> ConfigKey:
    """Return the key of a whole number from `low` to `high` without the numbers in `without`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
        if value in without:
            raise ValueError(f"{value} is not allowed")
        return value

    return ConfigKey(name, kind, default, doc, parse, broker, low, high)


def long_number(name: str, default: int, doc: str, *, low: int, broker: str | None = None) -> Any:
    """Declare a config of type LONG."""
    return whole_number(name, default, doc, low=low, high=MAX_LONG, kind=ConfigType.LONG, broker=broker)


def ratio(name: str, default: float, doc: str, *, broker: str | None = None) -> Any:
    """Declare a config of type DOUBLE between 0 and 1."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a number") from None
        if not 0 <= value <= 1:
            raise ValueError(f"{text} is not between 0 and 1")
        return value

    return _declare(ConfigKey(name, ConfigType.DOUBLE, default, doc, parse, broker, 0.0, 1.0))


def boolean(name: str, default: bool, doc: str, *, only: bool | None = None) -> Any:
    """Declare a config of type BOOLEAN; `only` is the one value that it may have, None: both."""

    def parse(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"'{text}' is neither true nor false")
        value = text.lower() == "true"
        if only is not None and value is not only:
            raise ValueError(f"it cannot be {text.lower()} here")
        return value

    return _declare(ConfigKey(name, ConfigType.BOOLEAN, default, doc, parse))


def choice(name: str, default: str, doc: str, choices: Sequence[str], *, broker: str | None = None) -> Any:
    """Declare a config of type STRING that has one of these values."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"'{text}' is not one of {', '.join(choices)}")
        return text

    return _declare(ConfigKey(name, ConfigType.STRING, default, doc, parse, broker))


def choices(name: str, default: tuple[str, ...], doc: str, items: Sequence[str], *, broker: str | None = None) -> Any:
    """Declare a config of type LIST that has any of these items, each once."""

    def parse(text: str) -> tuple[str, ...]:
        given = tuple(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
        unknown = [item for item in given if item not in items]
        if unknown:
            raise ValueError(f"'{unknown[0]}' is not one of {', '.join(items)}")
        return given

    return _declare(ConfigKey(name, ConfigType.LIST, default, doc, parse, broker))


def replica_list(name: str, doc: str) -> Any:
    """Declare a config of type LIST that names replicas as partition:broker, or all by ``*``; none by default."""

    def parse(text: str) -> tuple[str, ...]:
        given = tuple(item.strip() for item in text.split(",") if item.strip())
        if given == ("*",):
            return given
        for item in given:
            if not re.fullmatch(r"\d+:\d+", item):
                raise ValueError(f"'{item}' names no replica; one is partition:broker, and * alone names all")
        return given

    return _declare(ConfigKey(name, ConfigType.LIST, (), doc, parse))


def format_version(name: str, default: str, doc: str) -> Any:
    """Declare a config of type STRING that is a version of Kafka, such as 3.0 or 3.0-IV1."""

    def parse(text: str) -> str:
        if not re.fullmatch(r"\d+\.\d+(\.\d+)?(-IV\d+)?", text):
            raise ValueError(f"'{text}' is no version; one is 3.0-IV1")
        return text

    return _declare(ConfigKey(name, ConfigType.STRING, default, doc, parse))


def _declare(key: ConfigKey) -> Any:
    return field(default=key.default, metadata={"key": key})
