"""Names of APIs and error codes, as people write them, and the one nearest to a wrong name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode


def api_name(api_key: int) -> str:
    """Return an API's name as Kafka spells it, "OffsetForLeaderEpoch"; its number if it has none."""
    return _NAMES.get(api_key, str(api_key))


MAX_COMPARED_CHARS: Final = 64
"""A longer name is not compared: the time grows with the square of the length, and clients choose ids of 32 KiB."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence with the known name nearest to a wrong one; empty if none is near.

    Nothing is near to a name that is very long.
    """
    if len(name) > MAX_COMPARED_CHARS:
        return ""
    spelled = {each.replace("_", "").lower(): each for each in known}
    near = difflib.get_close_matches(name.replace("_", "").lower(), spelled, n=1)
    return f"; did you mean {spelled[near[0]]}?" if near else ""


def api_named(name: str) -> ApiKey | None:
    """Return the API of a name, spelled as "OffsetFetch" or "OFFSET_FETCH"; None: there is none."""
    return _APIS.get(name.replace("_", "").lower())


def error_named(name: str) -> ErrorCode | None:
    """Return the error code of a name, in letters of any case; None: there is none."""
    return ErrorCode.__members__.get(name.upper())


_NAMES: Final = {int(each): "".join(part.capitalize() for part in each.name.split("_")) for each in ApiKey}
_APIS: Final = {name.lower(): ApiKey(key) for key, name in _NAMES.items()}
API_NAMES: Final = tuple(_NAMES.values())
