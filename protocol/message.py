"""Declarations of messages, and how a declaration becomes code.

A message is declared once for all of its versions, as a class whose fields declare their wire types:

    @wire_struct
    class Pong(Message):
        error_code: int = int16()
        host: str = string(since=1)
        racks: list[str] = array(STRING, since=1)
        epoch: int = int32(default=-1, since=2, tag=0)

`wire_struct` makes a slotted class whose constructor takes keywords only and knows Kafka's default of every
field, so that `Pong(host="a")` is a message of any version: encoding leaves out the fields that the version does
not have, decoding gives them their defaults.

From declaration to code
------------------------
Interpreting declarations at run time would cost more than the rest of the broker's work for a small request. So
`compile_decoder` and `compile_encoder` read them once per (class, version) and write Python source for exactly that
version: no loops over fields, no calls per field, no checks of the version. The caller compiles and caches the
source at the first such message (about a millisecond); tracebacks show it.

Three ideas make the source fast:

* One precompiled `Struct` reads a run of neighbouring fields of fixed size straight into the attributes. The length
  in front of a string, the count in front of an array, and the count of tagged fields at a struct's end belong to
  such a run: an int16 or int32 in the old versions, and in the flexible ones (KIP-482) the first byte of a varint,
  which nearly always is its only one.
* Nested structs and arrays become nested loops in the same function.
* An encoder appends chunks to a list and joins them, but passes a large buffer of records on as a part of its own:
  parts go to `writelines`, and records are never copied.

For `Pong` in version 2, the first flexible one, the decoder is (names as generated, error handling left out):

    def decode(data, pos=0):
        size = len(data)
        m1 = new(Pong)
        m1.epoch = -1                                         # tagged fields may be absent
        m1.error_code, n = unpack_1(data, pos)                # one run: ">hB"
        pos += 3
        if n > 127:
            n, pos = read_uvarint_tail(data, pos, n)          # rare
        end = pos + n - 1                                     # compact lengths are one too large
        if not pos <= end <= size:
            raise bad_length(n - 1, size - pos, "Pong.host")
        m1.host = str(data[pos:end], "utf-8")
        pos = end
        n, = unpack_2(data, pos)
        pos += 1
        ...
        if (n - 1) * 1 > size - pos or n < 1:                 # a string takes a byte at least
            raise ...
        m1.racks = a2 = []
        for _ in range(n - 1):
            ...                                               # as for host
            a2.append(item)
        n, = unpack_2(data, pos)
        pos += 1
        if n:                                                 # tagged fields: known ones are read, others skipped
            ...
        return m1

and its encoder:

    def encode(m1):
        out = []
        append = out.append
        s = m1.host.encode()
        n = len(s) + 1
        if n < 128:
            append(pack_1(m1.error_code, n))                  # ">hB"
        else:
            append(pack_2(m1.error_code))
            append(long_length(n))
        append(s)
        ...                                                   # the racks
        if m1.epoch == -1:
            append(ZERO)                                      # no tagged fields
        else:
            ...
        return [b"".join(out)]

Safety of decoders
------------------
A decoder checks lengths against the data before it slices, and counts against the bytes left divided by the size of
the smallest possible element before it allocates, so that memory stays proportional to the data. The decoder of a
request also counts elements at every depth, unknown tagged fields and long strings, and refuses a request that has too
many of them (`Api.max_elements`): an empty entry costs little on the wire and much in Python. It skips unknown
tagged fields and ignores bytes after the message. It raises only `DecodeError`, for any bytes: one `try` around the
whole function converts the errors that the buffer raises at its end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, dataclass_transform, overload

from purgatorio.late import dataclass
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.primitives import MAX_REQUEST_ELEMENTS, ZERO_UUID, Buffer

T = TypeVar("T")
C = TypeVar("C", bound=type)

Records = Buffer | Sequence[Buffer] | None
"""A field of record batches: decoded as a memoryview into the frame; written from one buffer or from several."""

LATEST: Final = 0x7FFF
"""The last version of a field that no version has dropped."""

NEVER: Final = LATEST + 1


class Message:
    """The base of all requests and responses, and of what records hold; `wire_struct` declares its subclasses."""

    __slots__: ClassVar[tuple[str, ...]] = ()


class WireType(Generic[T]):
    """The wire type of a value; `T` is its Python type."""

    __slots__: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True)
class Fixed(WireType[T]):
    """A value of fixed size.

    Attributes:
        code: its format characters for the `struct` module.
        size_bytes: its size on the wire.
    """

    code: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StringType(WireType[str]):
    """A UTF-8 string behind an int16 length, or behind a varint length plus one."""


@dataclass(frozen=True, slots=True)
class BytesType(WireType[bytes]):
    """Bytes behind an int32 length, or behind a varint length plus one; decoded into a copy."""


@dataclass(frozen=True, slots=True)
class RecordsType(WireType[Any]):
    """Record batches behind the same length as bytes have; never copied."""


@dataclass(frozen=True, slots=True)
class StructType(WireType[T]):
    """A nested struct."""

    cls: type[T]


@dataclass(frozen=True, slots=True)
class ArrayType(WireType[list[T]]):
    """Elements behind an int32 count, or behind a varint count plus one."""

    element: WireType[T]


INT8: Final[Fixed[int]] = Fixed("b", 1)
INT16: Final[Fixed[int]] = Fixed("h", 2)
UINT16: Final[Fixed[int]] = Fixed("H", 2)
INT32: Final[Fixed[int]] = Fixed("i", 4)
UINT32: Final[Fixed[int]] = Fixed("I", 4)
INT64: Final[Fixed[int]] = Fixed("q", 8)
FLOAT64: Final[Fixed[float]] = Fixed("d", 8)
BOOLEAN: Final[Fixed[bool]] = Fixed("?", 1)
UUID: Final[Fixed[bytes]] = Fixed("16s", 16)
STRING: Final = StringType()
BYTES: Final = BytesType()
RECORDS: Final = RecordsType()


class Wire:
    """The declaration of one field.

    Attributes:
        type: its wire type.
        since: the first version that has it.
        until: the last version that has it.
        null_since: the first version in which it may be null.
        tag: its tag, if it is a tagged field (KIP-482).
        entity: what it names, or what each value of an array does.
    """

    __slots__ = ("entity", "null_since", "since", "tag", "type", "until")

    def __init__(
        self,
        type: WireType[Any],
        since: int = 0,
        until: int = LATEST,
        null_since: int = NEVER,
        tag: int | None = None,
        entity: Entity | None = None,
    ) -> None:
        self.type = type
        self.since = since
        self.until = until
        self.null_since = null_since
        self.tag = tag
        self.entity = entity


class WireField:
    """One field of a struct as the compiler sees it.

    Attributes:
        name: the attribute's name.
        wire: the declaration.
        default: the value if the version or the data does not have the field; None if `fresh` makes it.
        fresh: makes a mutable default.
    """

    __slots__ = ("default", "fresh", "name", "wire")

    def __init__(self, wire: Wire, default: Any, fresh: Callable[[], Any] | None) -> None:
        self.name = ""
        self.wire = wire
        self.default = default
        self.fresh = fresh

    def is_in(self, version: int) -> bool:
        """Whether a version of the message has this field."""
        return self.wire.since <= version <= self.wire.until

    def is_nullable(self, version: int) -> bool:
        """Whether the field may be null in a version of the message."""
        return self.wire.null_since <= version


def fields_of(cls: Any) -> tuple[WireField, ...]:
    """Return the declared fields of a wire struct, in wire order."""
    fields: tuple[WireField, ...] = cls.__wire_fields__
    return fields


def is_frozen(cls: Any) -> bool:
    """Return whether a wire struct is immutable."""
    return cls.__hash__ is not None


@overload
def wire_struct(cls: C, /) -> C: ...
@overload
def wire_struct(*, frozen: bool = False) -> Callable[[C], C]: ...
@dataclass_transform(kw_only_default=True)
def wire_struct(cls: Any = None, /, *, frozen: bool = False) -> Any:
    """Declare a struct of the protocol: a slotted class with keywords only; the functions below make its fields.

    A dataclass would compile four methods for each class; for all messages that took a tenth of the broker's import.
    Here all classes share how they are shown and compared, and a constructor is compiled at its first call.

    Args:
        cls: the class, when used without parentheses.
        frozen: makes it immutable and hashable; the class of a `struct` field must be frozen.
    """
    methods = _FROZEN_METHODS if frozen else _METHODS
    return (lambda declared: _declare(declared, methods)) if cls is None else _declare(cls, methods)


def _declare(cls: Any, methods: dict[str, Any]) -> Any:
    """Make the class again with slots: a class cannot get them later."""
    own = dict(cls.__dict__)
    fields = []
    for name in cls.__annotations__:
        found = own.get(name)
        if isinstance(found, WireField):
            del own[name]
            found.name = name
            fields.append(found)
    own.pop("__dict__", None)
    own.pop("__weakref__", None)
    own["__slots__"] = tuple(each.name for each in fields)
    own["__wire_fields__"] = tuple(fields)
    made = type(cls)(cls.__name__, cls.__bases__, {**own, **methods})
    made.__qualname__ = cls.__qualname__
    return made


def _first_init(self: Any, **values: object) -> None:
    cls = type(self)
    cls.__init__ = _constructor(cls)
    cls.__init__(self, **values)


def _constructor(cls: type) -> Callable[..., None]:
    """Compile the constructor of a message, at its first one: most of the classes of a process are never used."""
    names: dict[str, Any] = {"set_": object.__setattr__}
    parameters, lines = [], []
    assign = "    set_(self, {0!r}, {1}{0})\n" if is_frozen(cls) else "    self.{0} = {1}{0}\n"
    for field in fields_of(cls):
        name, default = field.name, f"d_{field.name}"
        names[default] = field.default if field.fresh is None else field.fresh
        parameters.append(f"{name}={default}")
        fresh = "" if field.fresh is None else f"{default}() if {name} is {default} else "
        lines.append(assign.format(name, fresh))
    keywords = f", *, {', '.join(parameters)}" if parameters else ""
    source = f"def __init__(self{keywords}):\n{''.join(lines) or '    pass'}"
    exec(source, names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _shown(self: object) -> str:
    cls = self.__class__
    return f"{cls.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in _names(cls))})"


def _is_equal(self: object, other: object) -> Any:
    cls = self.__class__
    if other.__class__ is not cls:
        return NotImplemented
    return [getattr(self, name) for name in _names(cls)] == [getattr(other, name) for name in _names(cls)]


def _names(cls: Any) -> list[str]:
    return [field.name for field in fields_of(cls)]


def _hash(self: object) -> int:
    return hash(tuple([getattr(self, name) for name in _names(self.__class__)]))


def _refuse(self: object, name: str, value: object = None) -> None:
    raise AttributeError(f"{self.__class__.__qualname__} is frozen: {name} stays as it is")


class _DataclassFields:
    """Makes `dataclasses.fields` and `replace` work for messages, at the first such call for a class."""

    def __get__(self, instance: object, cls: Any) -> dict[str, Any]:
        declared = [
            (each.name, cls.__annotations__[each.name], _dataclass_field(each.default, each.fresh))
            for each in fields_of(cls)
        ]
        alike: Any = dataclasses.make_dataclass(cls.__name__, declared, init=False, repr=False, eq=False, kw_only=True)
        cls.__dataclass_fields__ = found = alike.__dataclass_fields__
        return cast(dict[str, Any], found)


def _dataclass_field(default: object, fresh: Callable[[], Any] | None) -> Any:
    return dataclasses.field(default=default) if fresh is None else dataclasses.field(default_factory=fresh)


_METHODS: Final[dict[str, Any]] = {
    "__init__": _first_init,
    "__repr__": _shown,
    "__eq__": _is_equal,
    "__hash__": None,
    "__dataclass_fields__": _DataclassFields(),
}
_FROZEN_METHODS: Final[dict[str, Any]] = {
    **_METHODS,
    "__hash__": _hash,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
}


def _field(default: T, wire: Wire) -> T:
    return cast(T, WireField(wire, default, None))


def int8(
    default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None, entity: Entity | None = None
) -> int:
    """Declare an int8."""
    return _field(default, Wire(INT8, since, until, tag=tag, entity=entity))


def int16(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> int:
    """Declare an int16."""
    return _field(default, Wire(INT16, since, until, tag=tag))


def uint16(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> int:
    """Declare a uint16."""
    return _field(default, Wire(UINT16, since, until, tag=tag))


def int32(
    default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None, entity: Entity | None = None
) -> int:
    """Declare an int32."""
    return _field(default, Wire(INT32, since, until, tag=tag, entity=entity))


def uint32(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> int:
    """Declare a uint32."""
    return _field(default, Wire(UINT32, since, until, tag=tag))


def int64(
    default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None, entity: Entity | None = None
) -> int:
    """Declare an int64."""
    return _field(default, Wire(INT64, since, until, tag=tag, entity=entity))


def float64(default: float = 0.0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> float:
    """Declare a float64."""
    return _field(default, Wire(FLOAT64, since, until, tag=tag))


def boolean(default: bool = False, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> bool:
    """Declare a boolean; on the wire every byte but zero is true."""
    return _field(default, Wire(BOOLEAN, since, until, tag=tag))


def uuid(
    default: bytes = ZERO_UUID,
    *,
    since: int = 0,
    until: int = LATEST,
    tag: int | None = None,
    entity: Entity | None = None,
) -> bytes:
    """Declare a UUID, as its sixteen bytes."""
    return _field(default, Wire(UUID, since, until, tag=tag, entity=entity))


def string(
    default: str = "", *, since: int = 0, until: int = LATEST, tag: int | None = None, entity: Entity | None = None
) -> str:
    """Declare a string."""
    return _field(default, Wire(STRING, since, until, tag=tag, entity=entity))


def nullable_string(
    default: str | None = "",
    *,
    since: int = 0,
    until: int = LATEST,
    null_since: int = 0,
    tag: int | None = None,
    entity: Entity | None = None,
) -> str | None:
    """Declare a string that may be null from version `null_since` on."""
    return _field(default, Wire(STRING, since, until, null_since, tag, entity))


def binary(default: bytes = b"", *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Buffer:
    """Declare bytes, decoded into a copy."""
    return _field(default, Wire(BYTES, since, until, tag=tag))


def viewed() -> Buffer:
    """Declare bytes of which a request may have very many: decoded into a view, which handlers copy if they keep it."""
    return _field(b"", Wire(RECORDS))


def nullable_binary(
    default: bytes | None = b"", *, since: int = 0, until: int = LATEST, null_since: int = 0, tag: int | None = None
) -> Buffer | None:
    """Declare bytes that may be null from version `null_since` on."""
    return _field(default, Wire(BYTES, since, until, null_since, tag))


def records(*, null_since: int = 0) -> Any:
    """Declare record batches, which may be null from a version on; `NEVER`: in none."""
    return _field(None, Wire(RECORDS, null_since=null_since))


def array(
    element: WireType[T] | type[T],
    *,
    since: int = 0,
    until: int = LATEST,
    tag: int | None = None,
    entity: Entity | None = None,
) -> list[T]:
    """Declare an array of structs (give the class) or of plain values (give their wire type)."""
    wire = Wire(_array_of(element), since, until, tag=tag, entity=entity)
    return cast(list[T], WireField(wire, None, list))


def nullable_array(
    element: WireType[T] | type[T],
    *,
    since: int = 0,
    until: int = LATEST,
    null_since: int = 0,
    default_null: bool = False,
    tag: int | None = None,
    entity: Entity | None = None,
) -> list[T] | None:
    """Declare an array that may be null from version `null_since` on, and is empty or null by default."""
    wire = Wire(_array_of(element), since, until, null_since, tag, entity)
    if default_null:
        return _field(None, wire)
    return cast(list[T], WireField(wire, None, list))


def struct(cls: type[T], *, since: int = 0, until: int = LATEST, tag: int | None = None) -> T:
    """Declare a nested struct; its class must be frozen, since all messages share its default."""
    return _field(cls(), Wire(StructType(cls), since, until, tag=tag))


def own_struct(cls: type[T]) -> T:
    """Declare a nested struct that all versions have; each message has its own default, which may have arrays."""
    return cast(T, WireField(Wire(StructType(cls)), None, cls))


def nullable_struct(
    cls: type[T], *, since: int = 0, until: int = LATEST, null_since: int = 0, tag: int | None = None
) -> T | None:
    """Declare a nested struct that may be null from version `null_since` on, and is null by default.

    Null is -1 on the wire and a struct begins with 1; in a tagged field null is 0, and is always written.
    """
    return _field(None, Wire(StructType(cls), since, until, null_since, tag))


def _array_of(element: WireType[T] | type[T]) -> ArrayType[T]:
    return ArrayType(StructType(element) if isinstance(element, type) else element)


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its messages, and the versions that this package has codecs for.

    Attributes:
        key: its number.
        request: the class of its requests.
        response: the class of its responses.
        versions: the versions that can be encoded and decoded.
        flexible_from: the first flexible version (KIP-482): compact lengths, and tagged fields at every struct's end.
        max_elements: the most array entries, unknown tagged fields and long strings of a request, together.
    """

    key: ApiKey
    request: type[Message]
    response: type[Message]
    versions: range
    flexible_from: int
    max_elements: int = MAX_REQUEST_ELEMENTS

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible_from
