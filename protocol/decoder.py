"""The decoder compiler: from a message's declaration to a function that decodes one version; see `message`."""

# compiled: docs/compiled.md

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from purgatorio.protocol.compiler import SourceWriter, length_code, smallest_bytes
from purgatorio.protocol.errors import BufferUnderflow, InvalidUtf8, TooManyElements
from purgatorio.protocol.message import (
    ArrayType,
    BytesType,
    Fixed,
    Message,
    RecordsType,
    StringType,
    StructType,
    WireField,
    WireType,
    fields_of,
    is_frozen,
)
from purgatorio.protocol.primitives import (
    LONG_STRING_BYTES,
    MAX_STRING_BYTES,
    Buffer,
    allowed_after_string,
    bad_length,
    bad_tag_length,
    check_count,
    read_uvarint,
    read_uvarint_tail,
    skip_tagged_fields,
)

Decoder = Callable[[Buffer, int], Any]
"""A decoder takes the data and the message's start position, and returns the message; it raises DecodeError."""


UNBOUNDED: Final = 1 << 62
"""As many elements as the data can hold."""


def compile_decoder(cls: type[Message], version: int, flexible: bool, *, max_elements: int = UNBOUNDED) -> Decoder:
    """Generate and compile the decoder of one version of a message.

    Args:
        cls: the message.
        version: the version.
        flexible: whether the version is flexible (KIP-482).
        max_elements: the most array entries, unknown tagged fields and long strings of a message, together.
    """
    return _DecoderWriter(cls, version, flexible, max_elements).compile("decode")


class _DecoderWriter(SourceWriter):
    """Writes `decode(data, pos)`.

    Locals of the generated function: `data`, `pos` and `size` (of the data); `n` for the length or count just read;
    `end` for the end position of a string; `item` for an element before it is appended; `allowed` for the number of
    elements that the message may still have; numbered names for values that are used later.
    """

    def __init__(self, cls: type[Message], version: int, flexible: bool, max_elements: int) -> None:
        super().__init__(f"{cls.__name__} version {version}", version, flexible)
        self._is_bounded = max_elements < UNBOUNDED
        self.names.update(
            new=object.__new__,
            read_uvarint=read_uvarint,
            read_uvarint_tail=read_uvarint_tail,
            skip_tagged_fields=skip_tagged_fields,
            check_count=check_count,
            bad_length=bad_length,
            allowed_after_string=allowed_after_string,
            TooManyElements=TooManyElements,
            bad_tag_length=bad_tag_length,
            unpack_from=struct.unpack_from,
            StructError=struct.error,
            BufferUnderflow=BufferUnderflow,
            InvalidUtf8=InvalidUtf8,
        )
        self._run: list[tuple[str, str]] = []
        with self.block("def decode(data, pos=0)"):
            self.line("size = len(data)")
            self.line(f"allowed = {max_elements}")
            with self.block("try"):
                root = self._struct(cls)
                self._end_run()
                self.line(f"return {root}")
            with self.block("except (IndexError, StructError) as error"):
                self.line(f'raise BufferUnderflow("{self.title}: the data ends within a value") from error')
            with self.block("except UnicodeDecodeError as error"):
                self.line(f'raise InvalidUtf8(f"{self.title}: {{error.reason}} in a string") from error')

    def _fixed(self, code: str, target: str) -> None:
        """Add a value of fixed size to the present run."""
        self._run.append((code, target))

    def _end_run(self) -> None:
        """Read the present run straight into its targets."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        if codes == "B":  # a length, a count: an index takes a third of the time of a struct
            self.line(f"{self._run[0][1]} = data[pos]")
            self.line("pos += 1")
            self._run.clear()
            return
        targets = "".join(f"{target}, " for _, target in self._run)
        self.line(f"{targets}= {self.struct(codes, 'unpack_from')}(data, pos)")
        self.line(f"pos += {struct.calcsize('>' + codes)}")
        self._run.clear()

    def _struct(self, cls: type) -> str:
        """Read a struct and return the name of the local that holds it."""
        local = self.fresh("m")
        fields = fields_of(cls)
        name = self.name(cls, cls.__name__)
        # The fields of a frozen struct are locals until all are known; then the struct is made.
        frozen = is_frozen(cls)
        targets = f"{local}_" if frozen else f"{local}."
        if not frozen:
            self.line(f"{local} = new({name})")
        self._defaults(
            targets, [field for field in fields if field.wire.tag is not None or not field.is_in(self.version)]
        )
        for field in fields:
            if field.is_in(self.version) and field.wire.tag is None:
                what = f"{cls.__name__}.{field.name}"
                self._value(field.wire.type, f"{targets}{field.name}", what, field.is_nullable(self.version))
        if self.flexible:
            self._tagged_fields(cls, targets)
        if frozen:
            self._end_run()
            arguments = ", ".join(f"{field.name}={targets}{field.name}" for field in fields)
            self.line(f"{local} = {name}({arguments})")
        return local

    def _defaults(self, targets: str, fields: list[WireField]) -> None:
        for field in fields:
            default = f"{field.fresh.__name__}()" if field.fresh else self.literal(field.default)
            self.line(f"{targets}{field.name} = {default}")

    def _value(self, wire_type: WireType[Any], target: str, what: str, nullable: bool) -> None:
        """Read one value into a target, which is an attribute or a local."""
        match wire_type:
            case Fixed():
                self._fixed(wire_type.code, target)
            case StructType():
                self._nested_struct(wire_type, target, nullable)
            case ArrayType():
                self._array(wire_type, target, what, nullable)
            case _:
                self._sized(wire_type, target, what, nullable)

    def _nested_struct(self, wire_type: StructType[Any], target: str, nullable: bool) -> None:
        if nullable:
            self._nullable_struct(wire_type, target, "n < 0")
        else:
            self.line(f"{target} = {self._struct(wire_type.cls)}")

    def _nullable_struct(self, wire_type: StructType[Any], target: str, is_null: str) -> None:
        """Read a nullable struct: `is_null` is the condition, on its first byte `n`, for null."""
        self._fixed("b", "n")
        self._end_run()
        with self.block(f"if {is_null}"):
            self.line(f"{target} = None")
        with self.block("else"):
            local = self._struct(wire_type.cls)
            self._end_run()
            self.line(f"{target} = {local}")

    def _length(self, wire_type: WireType[Any]) -> None:
        """Read a length or a count into `n`; -1 is null."""
        self._fixed(length_code(wire_type, self.flexible), "n")
        self._end_run()
        if not self.flexible:
            return
        with self.block("if n > 127"):
            if not isinstance(wire_type, RecordsType):
                self.line("n, pos = read_uvarint_tail(data, pos, n)")
                return
            # Most batches take two bytes of length: a call less.
            with self.block("if data[pos] < 128"):
                self.line("n += (data[pos] << 7) - 128")
                self.line("pos += 1")
            with self.block("else"):
                self.line("n, pos = read_uvarint_tail(data, pos, n)")

    def _sized(self, wire_type: WireType[Any], target: str, what: str, nullable: bool) -> None:
        """Read a string, bytes or records."""
        self._length(wire_type)
        null, bias = ("0", " - 1") if self.flexible else ("-1", "")
        if nullable:
            with self.block(f"if n == {null}"):
                self.line(f"{target} = None")
            with self.block("else"):
                self._slice(wire_type, target, what, bias)
        else:
            self._slice(wire_type, target, what, bias)

    def _slice(self, wire_type: WireType[Any], target: str, what: str, bias: str) -> None:
        is_counted = self._is_bounded and isinstance(wire_type, StringType)
        limit = ""
        if is_counted:
            limit = f" or n > {LONG_STRING_BYTES}"
        elif isinstance(wire_type, StringType) and self.flexible:
            limit = f" or n > {MAX_STRING_BYTES + 1}"
        self.line(f"end = pos + n{bias}")
        with self.block(f"if end > size or end < pos{limit}"):
            if is_counted:
                self.line(f'allowed = allowed_after_string(n{bias}, pos, size, allowed, "{what}")')
            else:
                self.line(f'raise bad_length(n{bias}, size - pos, "{what}")')
        match wire_type:
            case StringType():
                self.line(f'{target} = str(data[pos:end], "utf-8")')
            case BytesType():
                self.line(f"{target} = bytes(data[pos:end])")
            case RecordsType():
                self.line(f"{target} = memoryview(data)[pos:end]")
        self.line("pos = end")

    def _array(self, wire_type: ArrayType[Any], target: str, what: str, nullable: bool) -> None:
        self._length(wire_type)
        if self.flexible:
            self.line("n -= 1")
        if nullable:
            with self.block("if n == -1"):
                self.line(f"{target} = None")
            with self.block("else"):
                self._elements(wire_type.element, target, what)
        else:
            self._elements(wire_type.element, target, what)

    def _elements(self, element: WireType[Any], target: str, what: str) -> None:
        smallest = smallest_bytes(element, self.version, self.flexible)
        with self.block(f"if n < 0 or n * {smallest} > size - pos"):
            self.line(f'check_count(n, {smallest}, size - pos, "{what}")')
        self._count(what)
        if isinstance(element, Fixed) and len(element.code) == 1:
            self.line(f'{target} = list(unpack_from(f">{{n}}{element.code}", data, pos))')
            self.line(f"pos += n * {smallest}" if smallest > 1 else "pos += n")
            return
        elements = self.fresh("a")
        self.line(f"{target} = {elements} = []")
        with self.block("for _ in range(n)"):
            if isinstance(element, StructType):
                item = self._struct(element.cls)
            else:
                item = "item"
                self._value(element, item, what, nullable=False)
            self._end_run()
            self.line(f"{elements}.append({item})")

    def _count(self, what: str) -> None:
        """Count `n` elements; refuse a message that has too many of them."""
        if not self._is_bounded:
            return
        self.line("allowed -= n")
        with self.block("if allowed < 0"):
            self.line(f'raise TooManyElements("{what}")')

    def _tagged_fields(self, cls: type, targets: str) -> None:
        """Read the section of tagged fields that ends every struct of a flexible version."""
        known = [field for field in fields_of(cls) if field.wire.tag is not None and field.is_in(self.version)]
        self._fixed("B", "n")
        self._end_run()
        with self.block("if n"):
            if not known:
                self.line("pos, allowed = skip_tagged_fields(data, pos, size, n, allowed)")
                return
            with self.block("if n > 127"):
                self.line("n, pos = read_uvarint_tail(data, pos, n)")
            self.line(f'check_count(n, 2, size - pos, "tagged fields of {cls.__name__}")')
            self._count(f"tagged fields of {cls.__name__}")
            with self.block("for _ in range(n)"):
                self._tagged_field(cls, targets, known)

    def _tagged_field(self, cls: type, targets: str, known: list[WireField]) -> None:
        end = self.fresh("end_")
        self.line("tag, pos = read_uvarint(data, pos)")
        self.line("n, pos = read_uvarint(data, pos)")
        self.line(f"{end} = pos + n")
        with self.block(f"if {end} > size"):
            self.line(f'raise bad_length(n, size - pos, "a tagged field of {cls.__name__}")')
        keyword = "if"
        for field in known:
            with self.block(f"{keyword} tag == {field.wire.tag}"):
                target, what = f"{targets}{field.name}", f"{cls.__name__}.{field.name}"
                if isinstance(field.wire.type, StructType) and field.is_nullable(self.version):
                    self._nullable_struct(field.wire.type, target, "n == 0")
                else:
                    self._value(field.wire.type, target, what, field.is_nullable(self.version))
                self._end_run()
            keyword = "elif"
        with self.block("else"):
            self.line(f"pos = {end}")
        with self.block(f"if pos != {end}"):
            self.line(f'raise bad_tag_length(tag, pos - {end}, "{cls.__name__}")')
