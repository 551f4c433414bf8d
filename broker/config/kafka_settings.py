"""The settings of Apache Kafka's own brokers, from the table beside this file.

The table is written by ``scripts/kafka_releases.py`` of the jars of the newest release. It is read when a setting is
named that Purgatorio does not declare, or when all settings are asked for: few processes need it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from purgatorio.broker.config.setting import Setting
from purgatorio.broker.log.config_keys import MAX_INT, MAX_LONG, ConfigType

TABLE: Final = Path(__file__).with_name("kafka_settings.txt")
READ_ONLY: Final = "read-only"
ONE_BROKER: Final = "per-broker"
MAX_TEXT: Final = 1_000
"""The most characters of a text that is kept for nothing."""
_HIGHEST: Final = {ConfigType.INT: MAX_INT, ConfigType.LONG: MAX_LONG, ConfigType.SHORT: 2**15 - 1}


class KafkaSetting(Setting):
    """A setting of Kafka's brokers, with the values that Kafka takes.

    Attributes:
        dotted: its name as Kafka has it.
        change: whether it may change while a broker runs: `READ_ONLY`, `ONE_BROKER`, or for all brokers, too.
        is_internal: whether Kafka describes it to no client.
        only: the texts that it may have, or the items of a list; empty: any.
        ignores_case: whether these may be written in upper or lower case.
        also: a number outside of its bounds that it may have, or None.
    """

    __slots__ = ("also", "change", "dotted", "ignores_case", "is_internal", "only")

    def __init__(self, dotted: str, kind: str, default: str, values: str, change: str, *internal: str) -> None:
        bounds, _, also = values.partition(",")
        low, is_number, high = bounds.partition("..")
        kind_of = ConfigType[kind]
        lowest = -1 - _HIGHEST[kind_of] if kind_of in _HIGHEST else None
        super().__init__(
            None,
            "",
            kind_of,
            low=_bound(low) if is_number else lowest,
            high=_bound(high) if high else _HIGHEST.get(kind_of),
            min_length=int(values == "+"),
        )
        self.annotation = "str"
        self.dotted = dotted
        self.name = dotted.replace(".", "_").replace("-", "_")
        self.change = change
        self.is_internal = bool(internal)
        self.ignores_case = values.startswith("~")
        self.only = () if is_number or values in "+-" else tuple(values.lstrip("~").split("|"))
        self.also = int(also) if also else None
        if default != "~":
            self.default = self.parsed(default[1:])

    def checked(self, value: object) -> Any:
        """Return a value that has its own type already; raises ValueError as `Setting.checked`."""
        if self.also is not None and value == self.also:
            return value
        value = super().checked(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("must be a finite number")
        if isinstance(value, str):
            self._check_kept(value)
        return value

    def _check_kept(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise ValueError(f"must have at most {MAX_TEXT} characters")
        items = [each.strip() for each in text.split(",") if each.strip()] if self.type is ConfigType.LIST else [text]
        for item in items:
            if self.only and (item.upper() if self.ignores_case else item) not in self.only:
                raise ValueError(
                    f"must be {'any' if self.type is ConfigType.LIST else 'one'} of {', '.join(self.only)}"
                )


def _bound(text: str) -> float:
    return float(text) if "." in text else int(text)


@cache
def kafka_settings() -> Mapping[str, KafkaSetting]:
    """Return the settings of Kafka's brokers by their dotted names, sorted."""
    rows = (line.split(" ") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return MappingProxyType({row[0]: KafkaSetting(*row) for row in rows})


@cache
def by_field_name() -> Mapping[str, KafkaSetting]:
    """Return the settings of Kafka's brokers by their names as fields: with underscores for dots."""
    return MappingProxyType({each.name: each for each in kafka_settings().values()})
