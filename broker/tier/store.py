"""An object store, as the tier uses it: four calls, and the four ways in which they fail.

StoreError
├── NotThere        there is no such object
├── Exists          there is one already, and the call was to create it
├── Unavailable     the store does not answer, or not now; a retry may succeed
└── Refused         the store answers that this may not be: no permission, no such bucket, a full disk
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from purgatorio.protocol.compression import Buffer


class StoreError(Exception):
    """The store has not done what it was asked for."""


class NotThere(StoreError):
    """There is no such object."""


class Exists(StoreError):
    """There is an object of this name already."""


class Unavailable(StoreError):
    """The store does not answer, or not now; whether it has done what was asked is not known."""


class Refused(StoreError):
    """The store answers that it will not do this."""


class StoredObject(NamedTuple):
    """An object in a list."""

    key: str
    size_bytes: int


class Store(Protocol):
    """An object store. A call may be cancelled at any time; what it has done by then is not known."""

    @property
    def location(self) -> str:
        """Where it is, in a sentence."""
        ...

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        """Write an object, which appears whole or not at all.

        Args:
            parts: its bytes, which do not change meanwhile; at least one part.
            create: fail if there is one of this name; if several try at once, one of them succeeds.

        Raises:
            Exists: there is one. Only with `create`.
            Unavailable, Refused: it was not written, as far as is known.
        """
        ...

    async def get(self, key: str, start: int, length: int) -> Buffer:
        """Return `length` bytes of an object from `start` on; fewer, or none, if it ends before.

        Raises:
            NotThere, Unavailable, Refused: nothing was read.
        """
        ...

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """Return all objects whose names begin with `prefix`, which ends with a slash; in no order.

        Raises:
            Unavailable, Refused: nothing was listed.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; one that is not there is deleted.

        Raises:
            Unavailable, Refused: it was not deleted, as far as is known.
        """
        ...


class MemoryStore:
    """A store in memory, for tests, and for a cluster whose tier may end with it.

    Attributes:
        objects: their bytes, by their names.
    """

    location = "the memory store"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        if create and key in self.objects:
            raise Exists(f"there is {key} already")
        self.objects[key] = b"".join(parts)

    async def get(self, key: str, start: int, length: int) -> Buffer:
        if key not in self.objects:
            raise NotThere(f"there is no {key}")
        return memoryview(self.objects[key])[start : start + length]

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return [StoredObject(key, len(self.objects[key])) for key in sorted(self.objects) if key.startswith(prefix)]

    async def delete(self, key: str) -> None:
        self.objects.pop(key, None)
