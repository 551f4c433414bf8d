"""Where the tier is: a folder, a bucket, or the memory of the process; and whether the store there does its part."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from purgatorio.broker.tier.store import Exists, Refused, Store, Unavailable
from purgatorio.purgatory.clock import Clock, time_limit

FOLDER: Final = "file"
MEMORY: Final = "memory"
PROBE_MS: Final = 10_000
"""The longest time that a store may take to show at the start that it does its part."""
FORMS: Final = "a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or memory:"

CREDENTIALS: Final[Mapping[str, str]] = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with AWS_SESSION_TOKEN, if they are temporary)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""The environment variables that have the credentials of each kind of bucket."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.]+):")


class Location(NamedTuple):
    """A location that can be one.

    Attributes:
        scheme: `FOLDER`, `MEMORY`, or that of a bucket: one of `CREDENTIALS`.
        place: the folder, absolute; or the URL of the bucket with a prefix, without a slash at the end.
        bucket: the bucket's name; "" unless it is one.
    """

    scheme: str
    place: str
    bucket: str = ""

    @classmethod
    def parse(cls, text: str) -> Location:
        """Return the location that a text names.

        Raises:
            Refused: it names none.
        """
        found = _SCHEME.match(text)
        scheme = found[1].lower() if found else FOLDER
        if found is None or (scheme == FOLDER and text[len(found[0]) :].startswith("///")):
            path = unquote(urlsplit(text).path) if found else text
            return cls(FOLDER, str(Path(path).expanduser().absolute()))
        if scheme == MEMORY and text[len(found[0]) :] in ("", "//", "///"):
            return cls(MEMORY, MEMORY)
        if scheme in CREDENTIALS:
            return cls._bucket(scheme, text)
        raise Refused(f"there is no store for {scheme}: – it is {FORMS} (a folder of that name is ./{found[0]}…)")

    @classmethod
    def _bucket(cls, scheme: str, text: str) -> Location:
        url = urlsplit(text)
        if "@" in url.netloc or url.query or url.fragment:  # a secret in a location would be shown on the page
            raise Refused(f"a {scheme}:// location is {scheme}://BUCKET/PREFIX and no more; set {CREDENTIALS[scheme]}")
        prefix = url.path.strip("/")
        if not url.netloc or (not {"", ".", ".."}.isdisjoint(prefix.split("/")) and prefix):
            raise Refused(f"{text} names no bucket with a prefix; it is {scheme}://BUCKET/PREFIX")
        return cls(scheme, f"{scheme}://{url.netloc}{'/' * bool(prefix)}{prefix}", url.netloc)


async def probe(store: Store, clock: Clock, name: str) -> None:
    """Check that the store can be written to, and that of several writers that create an object only one succeeds.

    Args:
        name: that of the object it is tried with, which no other probe has.

    Raises:
        Unavailable: the store does not answer in `PROBE_MS`.
        Refused: it cannot be used; the message says what to do.
    """
    async with at_the_start(store, clock):
        await _probe(store, name)


@asynccontextmanager
async def at_the_start(store: Store, clock: Clock) -> AsyncIterator[None]:
    """``async with at_the_start(store, clock):`` limits the time in which a store has to answer at the start.

    Raises:
        Unavailable: it does not.
    """
    try:
        async with time_limit(clock, PROBE_MS):
            yield
    except TimeoutError as error:
        raise Unavailable(f"{store.location} does not answer in {PROBE_MS // 1000} s") from error


async def _probe(store: Store, name: str) -> None:
    try:
        await store.put(name, [b"1"], create=True)
    except Exists:  # the answer to an earlier try was lost
        return
    try:
        await store.put(name, [b"2"], create=True)
    except Exists:
        return
    finally:
        await store.delete(name)
    raise Refused(
        f"{store.location} creates an object that is there (it ignores If-None-Match), so that leaders could overwrite "
        "each other's segments: take a store that knows conditional writes (versitygw: without --nometa)"
    )
