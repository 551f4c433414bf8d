"""Classes of settings: immutable objects with a value for each setting that the class declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.setting import ConfigType, Setting, config_text, other

V = TypeVar("V")
_SET: Final = "model_fields_set"


class SettingsError(ValueError):
    """Settings cannot be used.

    Attributes:
        problems: one line each, with the setting and what is wrong, without its value: that may be a password.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """Immutable settings, whose text as an object shows no password: it comes into logs and reports.

    A subclass declares one by each field, with `number`, `flag` and the like of `purgatorio.broker.log.setting`, and
    settings within settings with `part`. They are checked when an object is made, all by
    plain code: a library that builds validators from types takes longer to do so than a cluster to start. Their
    methods have the names of such a library's, pydantic, which users may know from there.

    Attributes:
        model_fields: the declared settings, by name; settings within settings are not among them.
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
                declared.owner, declared.annotation = cls, annotation
                fields[name] = declared.named(name)
                delattr(cls, name)
            elif isinstance(declared, _Within):
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


def topic_default(name: str) -> Any:
    """Declare the setting that is the default of a topic config, as that is declared."""
    config = TOPIC_CONFIGS[name]
    default = config_text(config.default) if config.type is ConfigType.LIST else config.default
    return other(default, config.doc, config.type, ge=config.low, le=config.high)


def part(cls: type[Settings]) -> Any:
    """Declare settings within settings, given as an object of this class or as a table."""
    return _Within(cls)


class _Within:
    """The class of settings within settings."""

    __slots__ = ("cls",)

    def __init__(self, cls: type[Settings]) -> None:
        self.cls = cls


class MadeLate(Mapping[str, V]):
    """A mapping that its first use makes: few brokers of tests are ever asked for theirs.

    Args:
        make: returns what it has; called once.
    """

    def __init__(self, make: Callable[[], Mapping[str, V]]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> V:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    @cached_property
    def _made(self) -> Mapping[str, V]:
        return self._make()
