"""How settings are declared: a class of settings, and for each its default, its bounds and its documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, dataclass_transform

from purgatorio.broker.config.setting import Setting, SettingsError
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.config_keys import MAX_INT, MAX_LONG, ConfigType, config_text

_SET: Final = "model_fields_set"


class Part:
    """Declares settings within settings; see `part`."""

    __slots__ = ("cls",)

    def __init__(self, cls: type[Settings]) -> None:
        self.cls = cls


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """Immutable settings, whose text as an object tells no password: it comes into logs and reports.

    A subclass declares one by each field, with the functions below. They are checked when an object is made, all by
    plain code: a library that builds validators from types takes longer to do so than a cluster to start. Their
    methods have the names of such a library's, pydantic, which users may know from there.

    Attributes:
        model_fields: what is declared, by name; settings within settings are not among them.
        model_fields_set: the names that were given a value, be it the default.

    Raises:
        SettingsError: a setting is unknown, or its value is not allowed.
    """

    model_fields: ClassVar[Mapping[str, Setting]] = MappingProxyType({})
    _parts: ClassVar[Mapping[str, type[Settings]]] = MappingProxyType({})
    _defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        """Collect what the class declares, after what its bases declare, of which the last one comes first."""
        fields: dict[str, Setting] = {}
        parts: dict[str, type[Settings]] = {}
        for base in reversed(cls.__bases__):
            if issubclass(base, Settings):
                fields.update(base.model_fields)
                parts.update(base._parts)
        for name, annotation in cls.__annotations__.items():
            declared = cls.__dict__.get(name)
            if isinstance(declared, Setting):
                declared.owner, declared.name, declared.annotation = cls, name, annotation
                fields[name] = declared
                delattr(cls, name)
            elif isinstance(declared, Part):
                parts[name] = declared.cls
                delattr(cls, name)
        cls.model_fields, cls._parts = MappingProxyType(fields), MappingProxyType(parts)
        cls._defaults = {name: setting.default for name, setting in fields.items()}

    def __init__(self, **given: Any) -> None:
        given = self._filled(given)
        values = {name: dict(each) if isinstance(each, dict) else each for name, each in self._defaults.items()}
        values.update(self.other_defaults(given))
        problems: list[str] = []
        for name, value in given.items():
            try:
                values[name] = self._checked(name, value)
            except SettingsError as error:
                problems += error.problems
            except ValueError as error:
                problems.append(f"{name} {error}")
        if problems:
            raise SettingsError(problems)
        for name, within in self._parts.items():
            if name not in values:
                values[name] = within()
        vars(self).update(values)
        vars(self)[_SET] = frozenset(given)
        self._check()

    @classmethod
    def _checked(cls, name: str, value: Any) -> Any:
        if name in cls._parts:
            within = cls._parts[name]
            return value if isinstance(value, within) else within(**value)
        if name not in cls.model_fields:
            raise ValueError("is not a setting")
        return cls.model_fields[name].checked(value)

    @classmethod
    def _filled(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return what was given with what follows from it, before it is checked; raises SettingsError."""
        return given

    @classmethod
    def other_defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults that are not those of the declarations, because of what was given."""
        return {}

    def _check(self) -> None:
        """Refuse settings that contradict each other; raises SettingsError."""

    @property
    def model_fields_set(self) -> frozenset[str]:
        """The names that were given a value, be it the default."""
        given: frozenset[str] = vars(self)[_SET]
        return given

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return these settings with others of which it is known that they are allowed."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        vars(made).update(update)
        vars(made)[_SET] = self.model_fields_set | update.keys()
        return made

    def model_dump(self, *, exclude_unset: bool = False) -> dict[str, Any]:
        """Return all settings by name, as plain data, or those that were given."""
        return {
            name: value.model_dump(exclude_unset=exclude_unset) if isinstance(value, Settings) else value
            for name, value in self
            if not exclude_unset or name in self.model_fields_set
        }

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield each setting with its value."""
        return ((name, vars(self)[name]) for name in (*self.model_fields, *self._parts))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are immutable; model_copy(update={{{name!r}: …}}) makes others")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("settings are immutable")

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self if not self._is_secret(name))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _is_secret(self, name: str) -> bool:
        return name in self.model_fields and self.model_fields[name].type is ConfigType.PASSWORD


def number(default: int, doc: str, *, ge: int = 0, le: int | None = None, long: bool = False) -> Any:
    """Declare a setting of type INT, or LONG, from `ge` to `le` (not given: the type's largest number)."""
    bound = le if le is not None else MAX_LONG if long else MAX_INT
    return other(default, doc, ConfigType.LONG if long else ConfigType.INT, ge=ge, le=bound)


def flag(default: bool, doc: str) -> Any:
    """Declare a setting of type BOOLEAN."""
    return other(default, doc, ConfigType.BOOLEAN)


def text(default: str | None, doc: str, *, min_length: int = 0, pattern: str | None = None) -> Any:
    """Declare a setting of type STRING; a field's type may name choices, as a `Literal`."""
    return other(default, doc, ConfigType.STRING, min_length=min_length, pattern=pattern)


def other(
    default: object,
    doc: str,
    kind: ConfigType,
    *,
    ge: float | None = None,
    le: float | None = None,
    min_length: int = 0,
    pattern: str | None = None,
) -> Any:
    """Declare a setting of any type. One whose default is None may be None; what it is else, follows from `kind`."""
    return Setting(default, doc, kind, low=ge, high=le, min_length=min_length, pattern=pattern)


def topic_default(name: str) -> Any:
    """Declare the setting that is the default of a topic config, as the table of topic configs has it."""
    key = TOPIC_CONFIGS[name]
    default = config_text(key.default) if key.type is ConfigType.LIST else key.default
    return other(default, key.doc, key.type, ge=key.low, le=key.high)


def part(cls: type[Settings]) -> Any:
    """Declare settings within settings, given as an object of this class or as a table."""
    return Part(cls)
