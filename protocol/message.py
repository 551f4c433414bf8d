"""Declarations of messages, and how a declaration becomes code.

A message is declared once for all of its versions, as a class whose fields declare their wire types:

    @wire_struct
    class Pong(Message):
        error_code: int = int16()
        host: str = string(since=1)
        racks: list[str] = array(STRING, since=1)
        epoch: int = int32(default=-1, since=2, tag=0)

`wire_struct` makes a slotted dataclass whose constructor takes keywords only and knows Kafka's default of every
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
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, dataclass_transform, overload

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

WIRE: Final = "wire"
"""The key of a field's `Wire` in the metadata of its dataclass field."""


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


@dataclass(frozen=True, slots=True)
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

    type: WireType[Any]
    since: int = 0
    until: int = LATEST
    null_since: int = NEVER
    tag: int | None = None
    entity: Entity | None = None


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a struct as the compiler sees it.

    Attributes:
        name: the attribute's name.
        wire: the declaration.
        default: the value if the version or the data does not have the field; None if `fresh` makes it.
        fresh: makes a mutable default.
    """

    name: str
    wire: Wire
    default: Any
    fresh: Callable[[], Any] | None

    def is_in(self, version: int) -> bool:
        """Whether a version of the message has this field."""
        return self.wire.since <= version <= self.wire.until

    def is_nullable(self, version: int) -> bool:
        """Whether the field may be null in a version of the message."""
        return self.wire.null_since <= version


@cache
def fields_of(cls: type) -> tuple[WireField, ...]:
    """Return the declared fields of a wire struct, in wire order."""
    return tuple(
        WireField(
            field.name,
            field.metadata[WIRE],
            None if field.default is dataclasses.MISSING else field.default,
            None if field.default_factory is dataclasses.MISSING else field.default_factory,
        )
        for field in dataclasses.fields(cls)
    )


@overload
def wire_struct(cls: C, /) -> C: ...
@overload
def wire_struct(*, frozen: bool = False) -> Callable[[C], C]: ...
@dataclass_transform(kw_only_default=True)
def wire_struct(cls: Any = None, /, *, frozen: bool = False) -> Any:
    """Declare a struct of the protocol: a slotted dataclass with keywords only; the functions below make its fields.

    Args:
        cls: the class, when used without parentheses.
        frozen: makes it immutable and hashable; the class of a `struct` field must be frozen.
    """
    make = dataclass(slots=True, kw_only=True, frozen=True) if frozen else _declare
    return make if cls is None else make(cls)


def _declare(cls: Any) -> Any:
    """Make a dataclass that shares how it is shown and compared with all others, and whose constructor comes late.

    A dataclass compiles these methods for each class; for all messages that took a tenth of the broker's import.
    """
    for name, method in _SHARED_METHODS.items():
        setattr(cls, name, method)
    made: Any = dataclass(slots=True, kw_only=True, repr=False, eq=False, init=False)(cls)

    def first_init(self: object, **values: object) -> None:
        made.__init__ = init = _constructor(made)
        init(self, **values)

    made.__init__ = first_init
    return made


def _constructor(cls: type) -> Callable[..., None]:
    """Compile the constructor of a message, at its first one: most of the classes of a process are never used."""
    names: dict[str, Any] = {}
    parameters, lines = [], []
    for field in fields_of(cls):
        name, default = field.name, f"d_{field.name}"
        names[default] = field.default if field.fresh is None else field.fresh
        parameters.append(f"{name}={default}")
        fresh = "" if field.fresh is None else f"{default}() if {name} is {default} else "
        lines.append(f"    self.{name} = {fresh}{name}\n")
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


_SHARED_METHODS: Final[dict[str, Any]] = {"__repr__": _shown, "__eq__": _is_equal, "__hash__": None}


def _field(default: T, wire: Wire) -> T:
    return dataclasses.field(default=default, metadata={WIRE: wire})


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


def records() -> Any:
    """Declare record batches, which may be null."""
    return _field(None, Wire(RECORDS, null_since=0))


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
    return cast(list[T], dataclasses.field(default_factory=list, metadata={WIRE: wire}))


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
    return cast(list[T], dataclasses.field(default_factory=list, metadata={WIRE: wire}))


def struct(cls: type[T], *, since: int = 0, until: int = LATEST, tag: int | None = None) -> T:
    """Declare a nested struct; its class must be frozen, since all messages share its default."""
    return _field(cls(), Wire(StructType(cls), since, until, tag=tag))


def own_struct(cls: type[T]) -> T:
    """Declare a nested struct that all versions have; each message has its own default, which may have arrays."""
    return dataclasses.field(default_factory=cls, metadata={WIRE: Wire(StructType(cls))})


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
        """Whether a version is flexible."""
        return version >= self.flexible_from
