"""Arrays of a response that are too long for an object per element."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar, overload

T = TypeVar("T")

INT64_BYTES: Final = 8


class Columns(Sequence[T], Generic[T]):
    """Structs of int64 fields, kept as one array for each field.

    Wherever a message has an array of such structs, this may stand in its place. It is encoded without a loop over its
    elements: 4,200 structs of two fields in 0.1 ms, where objects take 1.6 ms to make and to encode.

    Args:
        make: makes a struct of its fields by name.
        columns: the values of each field, in the order of the struct; of one length.
    """

    __slots__ = ("_columns", "_make")

    def __init__(self, make: Callable[..., T], **columns: array[int]) -> None:
        assert len({len(column) for column in columns.values()}) == 1, "the columns have one length"
        assert all(column.typecode == "q" for column in columns.values())
        self._make = make
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return self._make(**{name: column[index] for name, column in self._columns.items()})

    def encode(self, padding_bytes: int) -> bytes:
        """Return the structs one after the other, big-endian, with this many bytes of zero behind each."""
        size_bytes = len(self._columns) * INT64_BYTES + padding_bytes
        out = bytearray(size_bytes * len(self))
        for nth, column in enumerate(self._columns.values()):
            swapped = column[:]
            if sys.byteorder == "little":
                swapped.byteswap()
            values = swapped.tobytes()
            for byte in range(INT64_BYTES):
                out[nth * INT64_BYTES + byte :: size_bytes] = values[byte::INT64_BYTES]
        return bytes(out)
