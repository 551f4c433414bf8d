"""How a setting is declared: its default, its bounds, its documentation, and its type as DescribeConfigs answers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.config_keys import MAX_INT, MAX_LONG, ConfigType, config_text

_TYPE: Final = "type"
"""The name under which pydantic keeps a setting's type beside its field."""


class Settings(BaseModel):
    """Settings, whose text as an object tells no password: it comes into logs and reports."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        hide_input_in_errors=True,  # passwords
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Leave out passwords."""
        fields = type(self).model_fields
        for name, value in super().__repr_args__():
            extra: Any = fields[name].json_schema_extra if name in fields else None
            if extra is None or extra[_TYPE] != ConfigType.PASSWORD:
                yield name, value


def number(default: int, doc: str, *, ge: int = 0, le: int | None = None, long: bool = False) -> Any:
    """Declare a setting of type INT, or LONG, from `ge` to `le` (not given: the type's largest number)."""
    bound = le if le is not None else MAX_LONG if long else MAX_INT
    return other(default, doc, ConfigType.LONG if long else ConfigType.INT, ge=ge, le=bound)


def flag(default: bool, doc: str) -> Any:
    """Declare a setting of type BOOLEAN."""
    return other(default, doc, ConfigType.BOOLEAN)


def text(default: str | None, doc: str, **constraints: Any) -> Any:
    """Declare a setting of type STRING."""
    return other(default, doc, ConfigType.STRING, **constraints)


def other(default: object, doc: str, kind: ConfigType, **constraints: Any) -> Any:
    """Declare a setting of any type, with pydantic's constraints."""
    extra: JsonDict = {_TYPE: int(kind)}
    return Field(default=default, description=doc, json_schema_extra=extra, **constraints)


def topic_default(name: str) -> Any:
    """Declare the setting that is the default of a topic config, as the table of topic configs has it."""
    key = TOPIC_CONFIGS[name]
    default = config_text(key.default) if key.type is ConfigType.LIST else key.default
    return other(default, key.doc, key.type, ge=key.low, le=key.high)


def setting_type(field: FieldInfo) -> ConfigType:
    """The type of a setting that was declared here."""
    extra: Any = field.json_schema_extra
    return ConfigType(extra[_TYPE])
