"""The store of a location, by obstore: a folder or a bucket. The one file that imports it (the extra `tier`).

Its own retries are off: those of the tier go by the broker's clock. A folder is not synchronized to its disk, so it
survives the death of the process, not that of the machine.
"""

from __future__ import annotations

import atexit
import itertools
import re
import time
import weakref
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from purgatorio.broker.tier.location import CREDENTIALS, FOLDER, MEMORY, Location
from purgatorio.broker.tier.store import (
    Exists,
    MemoryStore,
    NotThere,
    Refused,
    Store,
    StoredObject,
    Unavailable,
)
from purgatorio.extras import install
from purgatorio.protocol.compression import Buffer

CONNECT_TIMEOUT: Final = "5s"
TIMEOUT: Final = "150s"
"""The longest time of a request: longer than the tier's own limits, which go by the broker's clock."""

LISTED_AT_ONCE: Final = 200
"""The objects of a list that are taken in one turn of the event loop: half a millisecond."""
SETTLE_SECONDS: Final = 0.05
"""The time in which a thread of obstore lets go of Python's objects after a call has ended or was cancelled."""
MAX_SETTLES: Final = 200
"""How often an exit waits so long for what such a thread still writes to a folder, although its call was cancelled."""
_numbers = itertools.count()
_written: dict[int, weakref.ref[memoryview]] = {}
"""The last part of each object that obstore has not let go of, by the number of the call."""

_STATUS: Final = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE: Final = re.compile(r'<Message>([^<]+)</Message>|"message": "([^"]+)"')
_ASKED: Final = re.compile(r"Error performing \w+ (https?://[^/ ]+)")
_SOURCE: Final = re.compile(r'(?:message|error): "([^"]+)"')
"""Where obstore's debug output has the system's words."""
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})
_RAN_OUT: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_NOT_ALLOWED: Final = frozenset({"InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"})
_ELSEWHERE: Final = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed"})
_METADATA_SERVICES: Final = ("//169.254.169.254", "//metadata.google.internal")
_DISK: Final = ("(os error 28)", "(os error 122)", "(os error 27)")
"""The disk is full, the quota is used up, the file would be too large."""
_NOT_WRITABLE: Final = ("(os error 1)", "(os error 13)", "(os error 30)")


class ObstoreStore:
    """A store that obstore has opened.

    Args:
        store: obstore's own.
        at: where it is.
    """

    def __init__(self, store: Any, at: Location) -> None:
        self._store = store
        self._at = at
        self.location = at.place
        self._obstore = _obstore()
        self._errors = self._obstore.exceptions

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        mode, views = "create" if create else "overwrite", [memoryview(each) for each in parts or [b""]]
        number = next(_numbers)
        _written[number] = weakref.ref(views[-1], lambda _: _written.pop(number))
        written = self._obstore.put_async(self._store, key, views, mode=mode, use_multipart=False)
        del views
        try:
            await written
        except Exception as error:
            told = self._told(error)
            if isinstance(told, NotThere):  # not every store says that it is the bucket
                told = Refused(f"there is no {self.location}: create it, or name another one ({told})")
            raise told from error

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
            async for chunk in self._obstore.list(self._store, prefix.rstrip("/"), chunk_size=LISTED_AT_ONCE):
                found += [StoredObject(each["path"], each["size"]) for each in chunk]
        except Exception as error:
            raise self._told(error) from error
        return found

    async def delete(self, key: str) -> None:
        try:
            await self._obstore.delete_async(self._store, key)
        except Exception as error:
            told = self._told(error)
            if not isinstance(told, NotThere):
                raise told from error

    def _told(self, error: Exception) -> Exception:
        """Return the store's error for one of obstore's; another one as it is."""
        errors, words = self._errors, _words(str(error))
        if not isinstance(error, (errors.BaseError, OSError)):
            return error
        if isinstance(error, errors.AlreadyExistsError):
            return Exists(words)
        if (why := _why_refused(str(error), words, self._at)) is not None:
            return Refused(why)
        if isinstance(error, FileNotFoundError):
            return NotThere(words)
        if isinstance(error, (errors.PermissionDeniedError, errors.UnauthenticatedError, errors.NotSupportedError)):
            return Refused(words)
        return Unavailable(words)


def _words(text: str) -> str:
    """Return the error in a line: what the store says, or the system, if there is a word of theirs in it."""
    first = text.partition("\n")[0]
    if (status := _STATUS.search(text)) is not None:
        said = _MESSAGE.search(text)
        code = _CODE.search(text)
        more = [code[1]] if code else []
        return ": ".join([status[1].strip(), *more, *([said[1] or said[2]] if said else [])])
    if (asked := _ASKED.search(first)) is None:
        return first
    source = _SOURCE.search(text)
    why = source[1] if source else "no answer in time" if "TimedOut" in text else first.rpartition(" - ")[2]
    return f"{asked[1]} cannot be reached: {why}"


def _why_refused(text: str, words: str, at: Location) -> str | None:
    """Return why the store will not do it, and what to do; None: it is something else."""
    found = _CODE.search(text)
    code, variables = found[1] if found else "", CREDENTIALS.get(at.scheme, "")
    if code in _NO_BUCKET:
        return f"there is no bucket {at.bucket}: create it, or name another one ({words})"
    if code in _RAN_OUT:
        return f"the credentials for {at.place} ran out: renew them; a process reads its environment once ({words})"
    if code in _ELSEWHERE or "incorrectly configured region" in text:
        return f"{at.place} is in another region: set AWS_REGION to the bucket's ({words})"
    if any(each in text for each in _METADATA_SERVICES) or "Account must be specified" in text:
        return f"there are no credentials for {at.place}: set {variables} ({words})"
    if code in _NOT_ALLOWED or words.startswith(("401 ", "403 ")):
        return f"{at.place} may not be used with these credentials; they need to get, put, list and delete ({words})"
    if any(each in text for each in _DISK):
        return f"there is no room in {at.place}: make some ({words})"
    if any(each in text for each in _NOT_WRITABLE):
        return f"{at.place} cannot be written to: permit it, or name another folder ({words})"
    return None


def open_store(location: str) -> Store:
    """Open the store of a location, without a connection to it; a folder is made if it is not there.

    Raises:
        Refused: there can be none, and why; obstore may be missing.
    """
    at = Location.parse(location)
    if at.scheme == MEMORY:
        return MemoryStore()
    if find_spec("obstore") is None:
        raise Refused(f"a tier needs obstore: {install('tier')}")
    if at.scheme != FOLDER:
        return _open_bucket(at)
    _make(at)
    return ObstoreStore(_obstore().store.LocalStore(at.place), at)


def _open_bucket(at: Location) -> ObstoreStore:
    obstore = _obstore()
    try:
        store = obstore.store.from_url(
            at.place,
            # An endpoint of http:// is one that the environment names.
            client_options={"allow_http": True, "connect_timeout": CONNECT_TIMEOUT, "timeout": TIMEOUT},
            retry_config={"max_retries": 0},
        )
    except (obstore.exceptions.BaseError, ValueError) as error:
        words = _words(str(error))
        raise Refused(_why_refused(str(error), words, at) or f"{at.place} is no location: {words}") from error
    return ObstoreStore(store, at)


def _make(at: Location) -> None:
    folder = Path(at.place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # of a name of its own: several processes may open the folder at a time
            pass
    except OSError as error:
        raise Refused(f"the tier's folder {folder} cannot be written to: {error.strerror or error}") from error


def check_location(location: str, *, of_one_process: bool = True) -> None:
    """Check a location without a connection to it, and without a thread, so that the process may fork afterwards.

    Args:
        of_one_process: whether all brokers are in this process, so that they may share its memory.

    Raises:
        Refused: as `open_store`; or the location is the memory of a process, and the brokers are several.
    """
    if not of_one_process and Location.parse(location).scheme == MEMORY:
        raise Refused("the memory of one process is no tier for the brokers of several: take a folder, or a bucket")
    open_store(location)


def _settle() -> None:
    """Let obstore's threads let go of Python's objects: one that does so while Python ends aborts the process.

    See https://github.com/PyO3/pyo3-async-runtimes/issues/40.
    """
    for _ in range(MAX_SETTLES):
        if not _written:
            break
        time.sleep(SETTLE_SECONDS)
    time.sleep(SETTLE_SECONDS)


@cache
def _obstore() -> Any:
    atexit.register(_settle)
    import obstore
    import obstore.exceptions
    import obstore.store

    return obstore
