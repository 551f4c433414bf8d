"""Values of kio, beside ours."""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from collections.abc import Callable
from typing import Any

from purgatorio.protocol.message import fields_of


def same(ours: Any, theirs: Any) -> bool:
    """Whether a value of ours equals a value of kio's."""
    match theirs:
        case datetime.timedelta():
            return bool(ours == theirs // datetime.timedelta(milliseconds=1))
        case datetime.datetime():
            return bool(ours == round(theirs.timestamp() * 1000))
        case uuid.UUID():
            return bool(ours == theirs.bytes)
        case tuple():
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case None:
            return ours is None or ours == bytes(16) or ours == -1
    if dataclasses.is_dataclass(theirs):
        mine = {f.name: getattr(ours, f.name) for f in fields_of(type(ours))}
        return all(same(named(mine, f.name), getattr(theirs, f.name)) for f in dataclasses.fields(theirs))
    return bool(ours == theirs)


def named(mine: dict[str, Any], name: str) -> Any:
    """Return our field for kio's name; kio omits the unit of a field that has a type of time."""
    return mine[name] if name in mine else mine[f"{name}_ms"]


def written(write: Callable[..., Any], entity: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, entity)
    return buffer.getvalue()
