"""Dataclasses that cost a program's start little: their methods are compiled when they are first called.

`dataclasses` compiles six methods of a frozen class when its module is imported, in a third of a millisecond; a broker
has hundreds of such classes, and most processes use few of them. Here a class begins with methods that all classes
share. The first call of its constructor, comparison or hash compiles what `dataclasses` would have, and puts it into
their place: from then on it is as fast. All else is as there: `fields`, `replace`, `asdict`, pattern matching, copies.

Modules that are compiled (docs/compiled.md) use `dataclasses`: the compiler knows its decorator, and no other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any, Final

_EARLY: Final = frozenset({"order", "unsafe_hash", "init", "match_args", "weakref_slot"})
"""Options with which a class is made by `dataclasses` alone."""


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Make a dataclass; takes the options of `dataclasses.dataclass`, and makes the same of them."""
        return _made(cls, options) if cls is not None else lambda decorated: _made(decorated, options)


def _made(cls: Any, options: dict[str, bool]) -> Any:
    is_derived = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
    has_more = "__init__" in cls.__dict__ or any("InitVar" in str(each) for each in cls.__annotations__.values())
    if is_derived or has_more or not _EARLY.isdisjoint(options):
        return dataclasses.dataclass(**options)(cls)
    is_frozen, has_eq = options.get("frozen", False), options.get("eq", True)
    for name, method in _methods(cls.__dict__, is_frozen, has_eq, options.get("repr", True)):
        setattr(cls, name, method)
    others = {name: options[name] for name in ("slots", "kw_only") if name in options}
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **others)(cls)
    made.__dataclass_params__.eq, made.__dataclass_params__.frozen = has_eq, is_frozen
    return made


def _methods(own: Any, is_frozen: bool, has_eq: bool, has_repr: bool) -> list[tuple[str, Any]]:
    """Return what a class gets at first, by name; what it defines itself stays."""
    found: list[tuple[str, Any]] = [("__init__", _first_init)]
    if has_repr and "__repr__" not in own:
        found.append(("__repr__", _shown))
    if has_eq:
        defines_eq = "__eq__" in own
        if not defines_eq:
            found.append(("__eq__", _first_eq))
        if "__hash__" not in own or (own["__hash__"] is None and defines_eq):
            found.append(("__hash__", _first_hash if is_frozen else None))
    if is_frozen:
        found += _FROZEN
    return found


def _first_init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    cls = _owner(self, "__init__", _first_init)
    cls.__init__ = _constructor(cls)
    cls.__init__(self, *args, **kwargs)


def _first_eq(self: Any, other: object) -> Any:
    cls = _owner(self, "__eq__", _first_eq)
    names = [field.name for field in fields(cls) if field.compare]
    mine, others = _values("self", names), _values("other", names)
    lines = [f"return {mine} == {others} if other.__class__ is self.__class__ else NotImplemented"]
    cls.__eq__ = _compiled(cls, "__eq__", ["self", "other"], lines, {})
    return cls.__eq__(self, other)


def _first_hash(self: Any) -> int:
    cls = _owner(self, "__hash__", _first_hash)
    names = [field.name for field in fields(cls) if (field.compare if field.hash is None else field.hash)]
    cls.__hash__ = _compiled(cls, "__hash__", ["self"], [f"return hash({_values('self', names)})"], {})
    found: int = cls.__hash__(self)
    return found


def _owner(self: object, name: str, first: object) -> Any:
    """Return the class that still has the method of all."""
    return next(cls for cls in type(self).__mro__ if cls.__dict__.get(name) is first)


def _constructor(cls: Any) -> Any:
    assign = "_set(self, {!r}, {})" if cls.__dataclass_params__.frozen else "self.{} = {}"
    names: dict[str, Any] = {"_set": object.__setattr__, "_not_given": dataclasses.MISSING}
    plain: list[str] = []
    by_keyword: list[str] = []
    lines = []
    for field in fields(cls):
        name, value = field.name, field.name
        parameter, default = name, f"_default_{name}"
        if field.default is not dataclasses.MISSING:
            names[default], parameter = field.default, f"{name}={default}"
            value = name if field.init else default
        elif field.default_factory is not dataclasses.MISSING:
            names[default], parameter = field.default_factory, f"{name}=_not_given"
            value = f"{default}() if {name} is _not_given else {name}" if field.init else f"{default}()"
        elif not field.init:
            continue
        if field.init:
            (by_keyword if field.kw_only else plain).append(parameter)
        lines.append(assign.format(name, value))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    made = _compiled(cls, "__init__", ["self", *plain, *(["*", *by_keyword] if by_keyword else [])], lines, names)
    made.__annotations__ = {field.name: field.type for field in fields(cls) if field.init} | {"return": None}
    return made


def _values(of: str, names: list[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


def _compiled(cls: Any, name: str, parameters: list[str], lines: list[str], names: dict[str, Any]) -> Any:
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    exec(f"def {name}({', '.join(parameters)}):\n{body}", names)
    made = names[name]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return made


def _shown(self: Any) -> str:
    told = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(told)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN: Final = (
    ("__setattr__", _refuse_to_set),
    ("__delattr__", _refuse_to_delete),
    ("__getstate__", _state),
    ("__setstate__", _set_state),
)
