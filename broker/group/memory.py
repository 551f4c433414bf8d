"""How many bytes groups keep of requests: ids, subscriptions, assignments, notes of committed offsets.

The counts follow each change, so that a look at them costs nothing. They are estimates: the bytes that CPython 3.12
takes, rounded up.
"""

from __future__ import annotations

from typing import Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.errors import ErrorCode

GROUP_BYTES: Final = 1_500
"""A group by itself, in its shard."""
MEMBER_BYTES: Final = 2_500
"""A member by itself, with its session in the purgatory; or an id that was given out, with its session."""
TEXT_BYTES: Final = 60
"""A string or bytes by itself."""
ENTRY_BYTES: Final = 120
"""An entry of a mapping, or of a list of small objects."""


class GroupMemory:
    """Bytes that are kept: by one group, by the groups of a shard, by those of a broker. Each counts in the next.

    Attributes:
        used_bytes: the bytes.
    """

    __slots__ = ("_whole", "used_bytes")

    def __init__(self) -> None:
        self.used_bytes = 0
        self._whole: GroupMemory | None = None

    def change(self, more_bytes: int) -> None:
        """Count more bytes, or less."""
        part: GroupMemory | None = self
        while part is not None:
            part.used_bytes += more_bytes
            part = part._whole

    def enter(self, whole: GroupMemory) -> None:
        """Count in `whole` from now on, with the bytes that were counted before; in nothing else."""
        self.leave()
        self._whole = whole
        whole.change(self.used_bytes)

    def leave(self) -> None:
        """Count in no other any more."""
        whole, self._whole = self._whole, None
        if whole is not None:
            whole.change(-self.used_bytes)

    def check(self, more_bytes: int, limit_bytes: int) -> None:
        """Check that so many more bytes may be kept.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED, on which all clients give up, and say why.
        """
        if more_bytes > 0 and self.used_bytes + more_bytes > limit_bytes:
            message = (
                f"the groups of this broker take {self.used_bytes} bytes of {limit_bytes}, and {more_bytes} more have "
                "no room (group.coordinator.memory.max.bytes)"
            )
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def text_bytes(*texts: str | None) -> int:
    """Return the bytes that strings take; None takes nothing."""
    size_bytes = 0
    for text in texts:
        if text is not None:
            size_bytes += TEXT_BYTES + (len(text) if text.isascii() else 4 * len(text))
    return size_bytes
