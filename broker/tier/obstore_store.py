"""The store of a location, by obstore: a folder. The one file that imports it (the extra `tier`).

Its own retries are off: those of the tier go by the broker's clock. A folder is not synchronized to its disk, so it
survives the death of the process, not that of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from purgatorio.broker.tier.store import Exists, NotThere, Refused, StoredObject, Unavailable
from purgatorio.extras import install
from purgatorio.protocol.compression import Buffer


class ObstoreStore:
    """A store that obstore has opened.

    Args:
        store: obstore's own.
        location: where it is, in a sentence.
    """

    def __init__(self, store: Any, location: str) -> None:
        self._store = store
        self.location = location
        self._obstore = _obstore()
        self._errors = self._obstore.exceptions

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        mode = "create" if create else "overwrite"
        try:
            await self._obstore.put_async(self._store, key, list(parts), mode=mode, use_multipart=False)
        except Exception as error:
            raise self._told(error) from error

    async def get(self, key: str, start: int, length: int) -> Buffer:
        try:
            found: Buffer = memoryview(
                await self._obstore.get_range_async(self._store, key, start=start, length=length)
            )
        except Exception as error:
            if "InvalidRange" in str(error):  # the object ends before the range begins
                return b""
            raise self._told(error) from error
        return found

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        found: list[StoredObject] = []
        try:
            async for chunk in self._obstore.list(self._store, prefix.rstrip("/")):
                found += [StoredObject(each["path"], each["size"]) for each in chunk]
        except Exception as error:
            raise self._told(error) from error
        return sorted(found)

    async def delete(self, key: str) -> None:
        try:
            await self._obstore.delete_async(self._store, key)
        except Exception as error:
            told = self._told(error)
            if not isinstance(told, NotThere):
                raise told from error

    def _told(self, error: Exception) -> Exception:
        """Return the store's error for one of obstore's, in its first line; another one as it is."""
        errors, words = self._errors, str(error).partition("\n")[0]
        if isinstance(error, FileNotFoundError):
            return NotThere(words)
        if isinstance(error, errors.AlreadyExistsError):
            return Exists(words)
        if isinstance(error, (errors.PermissionDeniedError, errors.UnauthenticatedError, errors.NotSupportedError)):
            return Refused(words)
        return Unavailable(words) if isinstance(error, (errors.BaseError, OSError)) else error


def open_store(location: str) -> ObstoreStore:
    """Open the store of a location: a folder, which is made if it is not there.

    Raises:
        Refused: obstore is not installed, there can be no folder, or it cannot be written to.
    """
    folder = check_location(location)
    obstore = _obstore()
    return ObstoreStore(obstore.store.LocalStore(str(folder)), str(folder))


def check_location(location: str) -> Path:
    """Return the folder of a location, without a connection to it, so that the process may fork afterwards.

    Raises:
        Refused: as `open_store`.
    """
    if find_spec("obstore") is None:
        raise Refused(f"a tier needs obstore: {install('tier')}")
    folder = Path(location).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # of a name of its own: several processes may open the folder at a time
            pass
    except OSError as error:
        raise Refused(f"the tier's folder {folder} cannot be written to: {error.strerror or error}") from error
    return folder


def _obstore() -> Any:
    import obstore
    import obstore.exceptions
    import obstore.store

    return obstore
