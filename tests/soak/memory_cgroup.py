"""A cgroup that bounds the memory of a process, as a container's does."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
NAME: Final = "purgatorio-flood"


class NoCgroup(Exception):
    """This machine lets this user make none."""


@dataclass(frozen=True)
class MemoryCgroup:
    """The cgroup, and how to live in it.

    Attributes:
        folder: its files.
    """

    folder: Path

    @property
    def prefix(self) -> tuple[str, ...]:
        """A command that enters it, and becomes the command that follows."""
        return "sh", "-c", f'echo $$ > {self.folder / "cgroup.procs"} && exec "$@"', "sh"

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed, since there was no memory for them."""
        for name in ("memory.events", "memory.oom_control"):
            if (file := self.folder / name).exists():
                found = re.search(r"^oom_kill (\d+)", file.read_text(), re.MULTILINE)
                assert found is not None, name
                return int(found[1])
        raise AssertionError("it counts no kills")


def _own(controller: str) -> Path | None:
    """Return the cgroup of this process that has a controller; an empty name for version 2."""
    found = re.search(rf"^\d+:{controller}:/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    return None if found is None else CGROUPS / controller / found[1]


@contextlib.contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[MemoryCgroup]:
    """Make a cgroup below this process's own; it is removed at the end, when nobody may live in it any more.

    Raises:
        NoCgroup: there can be none.
    """
    if not CGROUPS.exists():
        raise NoCgroup("the system has no cgroups")
    own, limit = _own("memory"), "memory.limit_in_bytes"
    if own is None:
        own, limit = _own(""), "memory.max"
    assert own is not None
    folder = own / NAME
    try:
        folder.mkdir()
    except OSError as error:
        raise NoCgroup(f"no cgroup can be made: {error}") from None
    try:
        if not (folder / limit).exists():
            raise NoCgroup(f"{own} does not let its children have the memory controller")
        (folder / limit).write_text(str(limit_bytes))
        yield MemoryCgroup(folder)
    finally:
        folder.rmdir()
