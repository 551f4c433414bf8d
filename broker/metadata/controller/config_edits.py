"""Edits of the configs of one resource, as AlterConfigs and IncrementalAlterConfigs ask for them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from purgatorio.broker.log.setting import ConfigType, Setting
from purgatorio.broker.metadata.controller.result import Refused
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode


class ConfigOperation(enum.IntEnum):
    """The operations on a config, with the codes of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One operation on one config.

    Attributes:
        operation: a code of ConfigOperation; unknown codes are refused.
        value: the new value; for APPEND and SUBTRACT, comma-separated list items; ignored for DELETE.
    """

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceConfigs:
    """The configs of one resource before an edit.

    Attributes:
        keys: what is known about each config, by its dotted name.
        defaults: the values of those that are not set, as text, by dotted names.
    """

    configs: Mapping[str, str]
    keys: Mapping[str, Setting]
    defaults: Mapping[str, str]


ConfigEdit = Callable[[ResourceConfigs], Mapping[str, str | None]]
"""Returns the configs that are set after the edit; their names and values are yet to be checked. Raises Refused."""


def replacing(configs: Mapping[str, str | None], named: Iterable[str] = ()) -> ConfigEdit:
    """Return the edit that sets exactly these configs; all others return to their defaults.

    Each must have a value: one without is INVALID_REQUEST.

    Args:
        named: their names as the request has them, if it may have one twice, which is INVALID_REQUEST, too.
    """

    def edit(before: ResourceConfigs) -> Mapping[str, str | None]:
        _check_once(named)
        for name, value in configs.items():
            if value is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Config '{name}' has no value.")
        return configs

    return edit


def _check_once(names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Config '{twice[0]}' is changed more than once.")


def changing(changes: Sequence[ConfigChange]) -> ConfigEdit:
    """Return the edit that changes some configs and leaves the others as they are."""

    def edit(before: ResourceConfigs) -> Mapping[str, str | None]:
        _check_once(change.name for change in changes)
        configs = dict(before.configs)
        for change in changes:
            _apply(configs, change, before)
        return configs

    return edit


def _apply(configs: dict[str, str], change: ConfigChange, before: ResourceConfigs) -> None:
    if change.operation == ConfigOperation.DELETE:
        configs.pop(change.name, None)
        return
    if change.value is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Config '{change.name}' has no value.")
    if change.operation == ConfigOperation.SET:
        configs[change.name] = change.value
    elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        configs[change.name] = _changed_list(before, change.name, change.value, change.operation)
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"There is no config operation {change.operation}.")


def _changed_list(before: ResourceConfigs, name: str, value: str, operation: int) -> str:
    """Return a list config with items added or removed; the default's items if the resource does not set it."""
    key = before.keys.get(name)
    if name not in before.defaults if key is None else key.type is not ConfigType.LIST:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Config '{name}' is not a list.")
    items = _items(before.configs[name] if name in before.configs else before.defaults.get(name, ""))
    given = _items(value)
    if operation == ConfigOperation.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _items(value: str) -> list[str]:
    return [item for item in (part.strip() for part in value.split(",")) if item]
