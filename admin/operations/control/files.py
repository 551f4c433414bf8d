"""Files that others may have prepared: opened without waiting, read within bounds, and written so that they last.

A name in a folder may stand for anything: a link to a file elsewhere, a pipe that no process writes to, a device
without an end. None of them is read or written here; a refusal is a sentence with the file's name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final

from purgatorio.broker.node.machine import usable_memory_bytes
from purgatorio.protocol.compression import Buffer

_OPENED: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FLAGS: Final = {
    "rb": _OPENED | os.O_RDONLY,
    "xb": _OPENED | os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "a+b": _OPENED | os.O_RDWR | os.O_CREAT | os.O_APPEND,
}
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe waits for its other end without it. Windows has none, nor `O_NOFOLLOW`."""
_NO_LINKS: Final = _AT_ONCE | getattr(os, "O_NOFOLLOW", 0)
_LINK: Final = "a link"
_FOLDER: Final = "a directory"
_KINDS: Final = (
    (stat.S_ISLNK, _LINK),
    (stat.S_ISDIR, _FOLDER),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class FileRefused(Exception):
    """A file cannot be used; the message names it and says why."""


def open_plain(path: Path, mode: str = "rb", *, links: bool = False) -> IO[Any]:
    """Open a regular file; one that is made is its owner's alone.

    Args:
        mode: one of `_FLAGS`, as that of `open`.
        links: whether `path` may be a link to such a file.

    Raises:
        FileRefused: it is no regular file.
        OSError: it cannot be opened.
    """
    kind = _kind(path)
    if kind and not (links and kind == _LINK):
        raise FileRefused(f"{path} is {kind}, not a file")
    flags = _FLAGS[mode] | (_AT_ONCE if links else _NO_LINKS)
    opened = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(opened).st_mode):  # behind a link
        os.close(opened)
        raise FileRefused(f"{path} is not a file")
    return os.fdopen(opened, mode)


def is_file(path: Path) -> bool:
    """Return whether it is a regular file, not a link to one."""
    return _kind(path) == "" and os.path.lexists(path)


def is_folder(path: Path) -> bool:
    """Return whether it is a folder, not a link to one."""
    return _kind(path) == _FOLDER


def _kind(path: Path) -> str:
    """Return which other kind of file it is, or nothing for a regular one, and for none."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "")


def check_memory(path: Path, size_bytes: int) -> None:
    """Check that so many bytes, which `path` has, can be in memory.

    Raises:
        FileRefused: they are more than the process may use.
    """
    usable_bytes = usable_memory_bytes()
    if usable_bytes is not None and size_bytes > usable_bytes:
        raise FileRefused(f"{path} has {size_bytes} bytes, and there are {usable_bytes} bytes of memory")


def why(error: OSError) -> str:
    """Return what the system says of a failure, for the end of a sentence."""
    return (error.strerror or str(error)).lower()


class FileSteps:
    """The steps by which files change. A process may be killed between any two of them, and within `write`.

    Content and names outlast the machine's power from the end of `sync` on: of a file for its content, of a folder for
    the names in it.
    """

    def make_folder(self, path: Path) -> None:
        """Make a folder, its owner's alone."""
        path.mkdir(mode=0o700)

    def write(self, path: Path, parts: Iterable[Buffer]) -> None:
        """Make a new file."""
        with open_plain(path, "xb") as file:
            file.writelines(parts)

    def sync(self, path: Path) -> None:
        """Have the disk keep a file or a folder as it is now."""
        if os.name == "nt" and path.is_dir():
            return  # Windows opens no folder
        opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(opened)
        except OSError as error:
            if error.errno != errno.EINVAL or not path.is_dir():
                raise  # otherwise a file system that is not on a disk, and has no fsync of folders (fsync(2))
        finally:
            os.close(opened)

    def replace(self, path: Path, target: Path) -> None:
        """Give a file the name of another one, which goes."""
        path.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file, or a link, if it is there; never what a link leads to."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        path.rmdir()
