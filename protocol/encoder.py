"""The encoder compiler: from a message's declaration to a function that encodes one version; see `message`."""

# compiled: docs/compiled.md

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final

from purgatorio.protocol.columns import Columns
from purgatorio.protocol.compiler import SourceWriter, length_code
from purgatorio.protocol.errors import EncodeError
from purgatorio.protocol.message import (
    INT64,
    ArrayType,
    Fixed,
    Message,
    RecordsType,
    StringType,
    StructType,
    WireField,
    WireType,
    fields_of,
)
from purgatorio.protocol.primitives import MAX_STRING_BYTES, ONE_BYTE_UVARINTS, Buffer, encode_uvarint

Encoder = Callable[[Any], list[Buffer]]
"""An encoder takes a message and returns its parts, of which the first is always `bytes`; it raises EncodeError."""

SteppedEncoder = Callable[[Any], Generator[int, None, list[Buffer]]]
"""An encoder that returns the parts of a long message after some steps, between which other work can be done."""

STEP_CHUNKS: Final = 16_000
"""Pieces of a message, such as a string or eight integers, that one step encodes: about 5 milliseconds."""

JOIN_BELOW_BYTES: Final = 2048
"""Buffers of records below this size are joined with their neighbours: a copy is cheaper than one more part."""


def compile_encoder(cls: type[Message], version: int, flexible: bool) -> Encoder:
    """Generate and compile the encoder of one version of a message."""
    return _EncoderWriter(cls, version, flexible).compile("encode")


def compile_stepped_encoder(cls: type[Message], version: int, flexible: bool) -> SteppedEncoder:
    """Generate and compile the encoder in steps of one version of a message; the message must not change meanwhile."""
    return _EncoderWriter(cls, version, flexible, stepped=True).compile("encode")


def long_string_length(length_plus_one: int) -> bytes:
    """Encode the length of a compact string that takes more than one byte.

    Raises:
        EncodeError: the string is too long.
    """
    if length_plus_one > MAX_STRING_BYTES + 1:
        raise EncodeError(f"a string of {length_plus_one - 1} bytes is longer than {MAX_STRING_BYTES}")
    return encode_uvarint(length_plus_one)


def add_records(parts: list[Buffer], out: list[Buffer], records: Any) -> None:
    """Add buffers of records: small ones to the chunks to be joined, large ones as parts of their own."""
    for buffer in records:
        if len(buffer) < JOIN_BELOW_BYTES:
            out.append(buffer)
        else:
            if out:
                parts.append(b"".join(out))
                out.clear()
            parts.append(buffer)


class _EncoderWriter(SourceWriter):
    """Writes `encode(m1)`.

    Locals of the generated function: `out` and its `append` collect chunks; `parts` are returned; `s` and `n` are the
    current string and its length; numbered names are structs (m), arrays (a) and tagged sections (t). With `stepped`
    it is a generator, in which `integers` are those of the present step that are packed by the array.
    """

    def __init__(self, cls: type[Message], version: int, flexible: bool, *, stepped: bool = False) -> None:
        steps = " in steps" * stepped
        super().__init__(f"{cls.__name__} version {version}{steps}", version, flexible)
        self._stepped = stepped
        self.names.update(
            UVARINTS=ONE_BYTE_UVARINTS,
            encode_uvarint=encode_uvarint,
            long_string_length=long_string_length,
            add_records=add_records,
            Columns=Columns,
            join=b"".join,
            pack=struct.pack,
            StructError=struct.error,
            EncodeError=EncodeError,
        )
        self._run: list[tuple[str, str]] = []
        self._append = "append"
        with self.block("def encode(m)"):
            self.line("out = []")
            self.line("append = out.append")
            self.line("parts = []")
            if stepped:
                self.line("integers = 0")
                with self.block("if False"):
                    self.line("yield 2_000")
            with self.block("try"):
                self._struct(cls, "m")
                self._end_run()
            with self.block("except (StructError, AttributeError, TypeError, UnicodeEncodeError) as error"):
                self.line(f'raise EncodeError(f"{self.title}: {{error}}") from error')
            with self.block("if out or not parts"):
                self.line("parts.append(join(out))")
            self.line("return parts")

    def _fixed(self, code: str, expression: str) -> None:
        """Add a value of fixed size to the present run; an empty expression is a byte of zero."""
        self._run.append((code, expression))

    def _take_run(self) -> str:
        """Return an expression for the bytes of the present run, and begin a new one."""
        codes = "".join(code for code, _ in self._run)
        values = ", ".join(expression for _, expression in self._run if expression)
        self._run.clear()
        if not values:
            return repr(bytes(len(codes)))
        return f"{self.struct(codes, 'pack')}({values})"

    def _end_run(self) -> None:
        if self._run:
            self.line(f"{self._append}({self._take_run()})")

    def _length(self, wire_type: WireType[Any]) -> None:
        """Write the run and the length or count `n`, to which flexible versions have already added one."""
        if not self.flexible:
            self._fixed(length_code(wire_type, self.flexible), "n")
            self._end_run()
            return
        long = "long_string_length" if isinstance(wire_type, StringType) else "encode_uvarint"
        if not self._run:
            self.line(f"{self._append}(UVARINTS[n] if n < 128 else {long}(n))")
            return
        run = list(self._run)
        with self.block("if n < 128"):
            self._fixed("B", "n")
            self._end_run()
        with self.block("else"):
            self._run = run
            self.line(f"{self._append}({self._take_run()} + {long}(n))")

    def _struct(self, cls: type, local: str) -> None:
        """Write a struct, and leave its last run open."""
        for field in fields_of(cls):
            if field.is_in(self.version) and field.wire.tag is None:
                self._value(field.wire.type, f"{local}.{field.name}", field.is_nullable(self.version))
        if self.flexible:
            self._tagged_fields(cls, local)

    def _value(self, wire_type: WireType[Any], source: str, nullable: bool) -> None:
        """Write the value that an expression gives."""
        match wire_type:
            case Fixed():
                if wire_type.code == "16s":
                    self._check_uuid(source)
                self._fixed(wire_type.code, source)
            case StructType():
                self._nested_struct(wire_type, source, nullable)
            case ArrayType():
                self._array(wire_type, source, nullable)
            case RecordsType():
                self._records(wire_type, source)
            case _:
                self._sized(wire_type, source, nullable)

    def _check_uuid(self, source: str) -> None:
        """Refuse a UUID of another size than 16 bytes, which `pack` would pad or cut without an error."""
        with self.block(f"if len({source}) != 16"):
            self.line(f'raise EncodeError(f"{self.title}: {{{source}!r}} is no UUID")')

    def _nested_struct(self, wire_type: StructType[Any], source: str, nullable: bool) -> None:
        if nullable:
            self._nullable_struct(wire_type, source, r"b'\xff'")
            return
        local = self.fresh("m")
        self.line(f"{local} = {source}")
        self._struct(wire_type.cls, local)

    def _nullable_struct(self, wire_type: StructType[Any], source: str, null: str) -> None:
        """Write a nullable struct: the byte `null`, or 1 and the struct."""
        local = self.fresh("m")
        self._end_run()
        self.line(f"{local} = {source}")
        with self.block(f"if {local} is None"):
            self.line(f"{self._append}({null})")
        with self.block("else"):
            self.line(f"{self._append}(b'\\x01')")
            self._struct(wire_type.cls, local)
            self._end_run()

    def _sized(self, wire_type: WireType[Any], source: str, nullable: bool) -> None:
        """Write a string or bytes."""
        encoded = ".encode()" if isinstance(wire_type, StringType) else ""
        null, bias = ("0", " + 1") if self.flexible else ("-1", "")
        if nullable:
            self.line(f"s = {source}")
            with self.block("if s is None"):
                self.line("s = b''")
                self.line(f"n = {null}")
            with self.block("else"):
                if encoded:
                    self.line("s = s.encode()")
                self.line(f"n = len(s){bias}")
        else:
            self.line(f"s = {source}{encoded}")
            self.line(f"n = len(s){bias}")
        self._length(wire_type)
        self.line(f"{self._append}(s)")

    def _records(self, wire_type: WireType[Any], source: str) -> None:
        null, bias = ("0", " + 1") if self.flexible else ("-1", "")
        records = self.fresh("r")
        self.line(f"{records} = {source}")
        with self.block(f"if {records} is None"):
            self.line(f"{records} = ()")
            self.line(f"n = {null}")
        with self.block(f"elif isinstance({records}, (list, tuple))"):
            self.line(f"n = sum(map(len, {records})){bias}")
        with self.block("else"):
            self.line(f"n = len({records}){bias}")
            self.line(f"{records} = ({records},)")
        self._length(wire_type)
        self.line(f"add_records(parts, out, {records})")

    def _array(self, wire_type: ArrayType[Any], source: str, nullable: bool) -> None:
        array = self.fresh("a")
        null, bias = ("0", " + 1") if self.flexible else ("-1", "")
        self.line(f"{array} = {source}")
        if nullable:
            self.line(f"n = {null} if {array} is None else len({array}){bias}")
        else:
            self.line(f"n = len({array}){bias}")
        self._length(wire_type)
        with self.block(f"if {array}"):
            self._elements(wire_type.element, array)

    def _elements(self, element: WireType[Any], array: str) -> None:
        if isinstance(element, Fixed) and len(element.code) == 1:
            self.line(f'{self._append}(pack(f">{{len({array})}}{element.code}", *{array}))')
            if self._stepped:
                self.line(f"integers += len({array})")
            return
        if isinstance(element, StructType) and self._is_of_int64(element.cls):
            with self.block(f"if type({array}) is Columns"):
                self.line(f"{self._append}({array}.encode({int(self.flexible)}))")
            with self.block("else"):
                self._each_element(element, array)
        else:
            self._each_element(element, array)

    def _is_of_int64(self, cls: type) -> bool:
        """Return whether a struct has only int64 fields in this version, so that `Columns` of it can be encoded."""
        return all(
            field.wire.type == INT64 and field.wire.tag is None and field.is_in(self.version)
            for field in fields_of(cls)
        )

    def _each_element(self, element: WireType[Any], array: str) -> None:
        local = self.fresh("m")
        with self.block(f"for {local} in {array}"):
            if isinstance(element, StructType):
                self._struct(element.cls, local)
            else:
                self._value(element, local, nullable=False)
            self._end_run()
            if self._stepped and self._append == "append":  # a tagged field is encoded in one step
                self._end_step()

    def _end_step(self) -> None:
        """Let others pass if enough was encoded since the last step."""
        with self.block(f"if len(out) + (integers >> 3) > {STEP_CHUNKS}"):
            self.line("parts.append(join(out))")
            self.line("out.clear()")
            self.line("integers = 0")
            self.line("yield 2_000")

    def _tagged_fields(self, cls: type, local: str) -> None:
        """Write the section of tagged fields: those that differ from their default, in the order of their tags."""
        known = [field for field in fields_of(cls) if field.wire.tag is not None and field.is_in(self.version)]
        if not known:
            self._fixed("x", "")
            return
        self._end_run()
        known.sort(key=lambda field: field.wire.tag or 0)
        with self.block("if " + " and ".join(self._is_default(field, local) for field in known)):
            self.line(f"{self._append}(b'\\0')")
        with self.block("else"):
            outer, section = self._append, self.fresh("t")
            count = self.fresh("count_")
            self.line(f"{section} = []")
            self.line(f"{count} = 0")
            for field in known:
                self._tagged_field(field, local, section, count)
            self._append = outer
            self.line(f"{outer}(encode_uvarint({count}))")
            self.line(f"{outer}(join({section}))")

    def _tagged_field(self, field: WireField, local: str, section: str, count: str) -> None:
        value = self.fresh("t")
        with self.block(f"if not ({self._is_default(field, local)})"):
            self.line(f"{count} += 1")
            self.line(f"{value} = []")
            self._append = f"{value}.append"
            source = f"{local}.{field.name}"
            if isinstance(field.wire.type, StructType) and field.is_nullable(self.version):
                self._nullable_struct(field.wire.type, source, r"b'\0'")
            else:
                self._value(field.wire.type, source, field.is_nullable(self.version))
            self._end_run()
            self.line(f"{value} = join({value})")
            self.line(f"{section} += (encode_uvarint({field.wire.tag}), encode_uvarint(len({value})), {value})")

    def _is_default(self, field: WireField, local: str) -> str:
        """Return the condition that a field has its default; it is cheap for a field that was never set."""
        source = f"{local}.{field.name}"
        if field.fresh:
            return f"{source} == []"
        if field.default is None:
            # Kafka takes an absent struct for one of defaults, so null has to be written.
            return "False" if isinstance(field.wire.type, StructType) else f"{source} is None"
        default = self.literal(field.default)
        if isinstance(field.wire.type, StructType):
            return f"({source} is {default} or {source} == {default})"
        return f"{source} == {default}"
