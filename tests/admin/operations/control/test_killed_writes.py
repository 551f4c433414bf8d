"""A process that is killed, or a machine that loses its power, at any step of a write.

The folder is as it was before, or as it is after; and what is left beside is gone at the next start.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from purgatorio.admin.operations.control.data_folder import LOCK, MANIFEST, DataFolder
from purgatorio.admin.operations.control.files import FileSteps
from purgatorio.broker.cluster.snapshots import Snapshot
from tests.admin.operations.control.saved import snapshot

BEFORE, AFTER = snapshot(()), snapshot()
"""What the folder has, and what the write would have it have. The log of the first is not as long."""


class Killed(BaseException):
    """The process is gone: nothing that it would do after has any effect."""


class KilledSteps(FileSteps):
    """Does so many steps, and then ends; a write has a step in its middle."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        """Go on, or end."""
        if self.left == 0:
            self.end()
        self.left -= 1

    def end(self) -> None:
        """End."""
        raise Killed

    def make_folder(self, path: Path) -> None:
        self.step()
        super().make_folder(path)

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        self.step()
        content = b"".join(parts)
        super().write(path, [content[: len(content) // 2]])
        self.step()
        with path.open("ab") as file:
            file.write(content[len(content) // 2 :])

    def sync(self, path: Path) -> None:
        self.step()

    def replace(self, path: Path, target: Path) -> None:
        self.step()
        super().replace(path, target)

    def remove(self, path: Path) -> None:
        self.step()
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        self.step()
        super().remove_folder(path)


def read(path: Path) -> Snapshot | None:
    """Return what the next start finds; nothing is left beside it then."""
    with closing(DataFolder(path)) as folder:
        found = folder.read()
        if found is not None:
            (named,) = (each.name for each in path.iterdir() if each.name not in (LOCK, MANIFEST, f"{MANIFEST}.new"))
            assert {each.suffix for each in (path / named).iterdir()} == {".log"}
        folder.write(AFTER)
        assert (folder.read(), len(list(path.iterdir()))) == (AFTER, 3)
    return found


def killed_after(path: Path, steps: int) -> bool:
    """Write to the folder as a process that is killed after so many steps; return whether it was done by then."""
    with closing(DataFolder(path, KilledSteps(steps))) as folder, suppress(Killed):
        folder.write(AFTER)
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("before", [BEFORE, None], ids=["again", "first"])
def test_a_kill_at_each_step_leaves_the_folder_before_or_after(tmp_path: Path, before: Snapshot | None) -> None:
    """Before, until one step; after, from it on."""
    found = []
    for steps in range(100):
        path = tmp_path / str(steps)
        if before is not None:
            with closing(DataFolder(path)) as folder:
                folder.write(before)
        done = killed_after(path, steps)
        found.append(read(path))
        if done:
            break
    last = found.index(AFTER)
    assert found == [before] * last + [AFTER] * (len(found) - last)
    assert 10 < last < len(found) - 1


@pytest.mark.parametrize("before", [BEFORE, None], ids=["again", "first"])
def test_what_kills_leave_does_not_add_up(tmp_path: Path, before: Snapshot | None) -> None:
    """The next write removes it, if no start has."""
    named = []
    if before is not None:
        named = ["snapshot-1", MANIFEST]
        with closing(DataFolder(tmp_path)) as folder:
            folder.write(before)
    for steps in (9, 10, 11):
        assert not killed_after(tmp_path, steps)
    left = {each.name for each in tmp_path.iterdir()} - {LOCK, *named}
    assert len(left) == 1


class _File:
    """A file: what it has, and what of it the disk has."""

    def __init__(self, content: bytes) -> None:
        self.content, self.kept = content, b""


class Disk(FileSteps):
    """Keeps book of what the disk has: of a file its content, of a folder the names in it, from their `sync` on.

    Attributes:
        names: the files and folders (None) now.
        kept: those whose names the disk has.
    """

    def __init__(self, path: Path, copies: Path) -> None:
        self.names: dict[Path, _File | None] = {}
        for each in path.rglob("*"):
            self.names[each] = _File(each.read_bytes()) if each.is_file() else None
        for file in self.names.values():
            if file is not None:
                file.kept = file.content
        self.kept = dict(self.names)
        self._path = path
        self._copies = copies
        self.found: list[tuple[Snapshot | None, ...]] = []

    def cut(self) -> None:
        """Note what a start finds after a power cut now: with the names that the disk has, one more, and all."""
        found = []
        manifest = self._path / MANIFEST
        one_more = {**self.kept, manifest: self.names[manifest]} if manifest in self.names else self.kept
        for names in (self.kept, one_more, self.names):
            copy = self._copies / str(len(self.found)) / str(len(found))
            copy.mkdir(parents=True)
            for path, file in sorted(names.items(), key=lambda each: each[0]):
                target = copy / path.relative_to(self._path)
                if file is None:
                    target.mkdir()
                elif target.parent.exists():
                    target.write_bytes(file.kept)
            found.append(read(copy))
        self.found.append(tuple(found))

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self.names[path] = None
        self.cut()

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        super().write(path, parts)
        self.names[path] = _File(path.read_bytes())
        self.cut()

    def sync(self, path: Path) -> None:
        super().sync(path)
        file = self.names.get(path)
        if file is not None:
            file.kept = file.content
        else:
            self.kept = {each: file for each, file in self.kept.items() if each.parent != path}
            self.kept |= {each: file for each, file in self.names.items() if each.parent == path}
        self.cut()

    def replace(self, path: Path, target: Path) -> None:
        super().replace(path, target)
        self.names[target] = self.names.pop(path)
        self.cut()

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.names.pop(path, None)
        self.cut()

    def remove_folder(self, path: Path) -> None:
        super().remove_folder(path)
        del self.names[path]
        self.cut()


@pytest.mark.slow
@pytest.mark.parametrize("before", [BEFORE, None], ids=["again", "first"])
def test_a_power_cut_at_each_step_leaves_the_folder_before_or_after(tmp_path: Path, before: Snapshot | None) -> None:
    path = tmp_path / "data"
    if before is not None:
        with closing(DataFolder(path)) as folder:
            folder.write(before)
    else:
        DataFolder(path).close()
    disk = Disk(path, tmp_path / "copies")
    with closing(DataFolder(path, disk)) as folder:
        folder.write(AFTER)
    for found in zip(*disk.found, strict=True):
        last = found.index(AFTER)
        assert list(found) == [before] * last + [AFTER] * (len(found) - last)
    least, _, most = zip(*disk.found, strict=True)
    assert (least[-1], most.index(AFTER) + 1) == (AFTER, least.index(AFTER))


CHILD = """
import os, signal, sys
from pathlib import Path
from tests.admin.operations.control.test_killed_writes import AFTER, DataFolder, KilledSteps

class KilledProcess(KilledSteps):
    def end(self):
        os.kill(os.getpid(), signal.SIGKILL)

for steps, path in enumerate(sys.argv[1:]):
    if os.fork() == 0:
        DataFolder(Path(path), KilledProcess(steps)).write(AFTER)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
"""Writes to each folder in a process of its own, which kills itself: to the first before its first step, and so on."""


@pytest.mark.process
def test_a_process_that_is_killed_at_each_step_leaves_the_folder_before_or_after(tmp_path: Path) -> None:
    paths = [tmp_path / str(steps) for steps in range(25)]
    for path in paths:
        with closing(DataFolder(path)) as folder:
            folder.write(BEFORE)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, paths)], stdout=subprocess.PIPE, text=True, check=True
    )
    codes = [int(line) for line in done.stdout.split()]
    killed = codes.index(0)
    assert codes == [-signal.SIGKILL] * killed + [0] * (len(paths) - killed)
    found = [read(path) for path in paths]
    last = found.index(AFTER)
    assert found == [BEFORE] * last + [AFTER] * (len(paths) - last)
    assert 10 < last < killed < len(paths)
