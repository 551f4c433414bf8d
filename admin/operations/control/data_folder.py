"""A snapshot in a folder, with which a cluster begins, and which it writes at its end (docs/data.md).

::

    DIR/snapshot.json     the format's version, the metadata, and for each partition its offsets, file, size and CRC-32
    DIR/snapshot-3/7.log  the record batches of a partition, one after the other, as Kafka keeps and sends them
    DIR/lock              held by the process that uses the folder

A new snapshot is written to a new folder beside the last one. `snapshot.json`, which names its folder, is then replaced
at once: a process that dies on the way, or a machine that loses its power, leaves the last snapshot as it was. The next
start or write removes what such a process left beside it: folders of this name with nothing but logs in them.
`snapshot.json` may hold credentials, so that only its owner may read it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from purgatorio.admin.operations.control import saved_format
from purgatorio.admin.operations.control.damage import Damaged
from purgatorio.admin.operations.control.files import (
    FileRefused,
    FileSteps,
    check_memory,
    is_file,
    is_folder,
    open_plain,
    why,
)
from purgatorio.admin.operations.control.saved_format import MAX_MANIFEST_BYTES, Manifest, NewerFormat
from purgatorio.broker.cluster.snapshots import SavedPartition, Snapshot
from purgatorio.broker.log.topic_partition import TopicPartition

MANIFEST: Final = "snapshot.json"
LOCK: Final = "lock"


class DataUnusable(Exception):
    """The folder cannot be used; the message says why."""


class DataFolder:
    """A folder that belongs to this process until `close`.

    Args:
        path: it is made if it does not exist.
        steps: writes files.

    Raises:
        DataUnusable: it cannot be written to, or another process uses it.
    """

    def __init__(self, path: Path, steps: FileSteps | None = None) -> None:
        self.path = path
        self._steps = steps if steps is not None else FileSteps()
        with _as_unusable(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = open_plain(path / LOCK, "a+b")
        if not _locked(self._lock):
            self._lock.close()
            raise DataUnusable(f"{path} is used by another process")

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()

    # --- reading ---

    def read(self) -> Snapshot | None:
        """Return the snapshot, and remove what a process left that was killed as it wrote; None if there is none yet.

        Raises:
            DataUnusable: a newer version wrote it, or it is damaged. Nothing is removed.
        """
        with _as_unusable(self.path):
            manifest = self._manifest()
            if manifest is None:
                return None
            check_memory(self.path, sum(log.size_bytes for log in manifest.logs))
            snapshot = Snapshot.of(manifest.image, dict(self._logs(manifest)))
        self._remove_others(manifest.folder)
        return snapshot

    def _manifest(self) -> Manifest | None:
        path = self.path / MANIFEST
        try:
            with open_plain(path) as file:
                if os.fstat(file.fileno()).st_size > MAX_MANIFEST_BYTES:
                    raise Damaged(f"it has more than {MAX_MANIFEST_BYTES} bytes")
                return saved_format.read_manifest(file.read(MAX_MANIFEST_BYTES))
        except FileNotFoundError:
            return None
        except NewerFormat as error:
            raise DataUnusable(f"{self.path} {error}") from None
        except Damaged as error:
            raise DataUnusable(f"{path} is damaged: {error}") from None

    def _logs(self, manifest: Manifest) -> Iterator[tuple[TopicPartition, SavedPartition]]:
        folder = self.path / manifest.folder
        if not is_folder(folder):
            raise DataUnusable(f"{self.path} is damaged: there is no folder {manifest.folder}")
        for log in manifest.logs:
            path = folder / log.file_name
            try:
                with open_plain(path) as file:
                    yield log.tp, saved_format.read_log(file, os.fstat(file.fileno()).st_size, log)
            except FileNotFoundError:
                raise DataUnusable(f"{self.path} is damaged: {manifest.folder}/{log.file_name} is missing") from None
            except Damaged as error:
                raise DataUnusable(f"{path} is damaged: {error}") from None

    # --- writing ---

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the last one.

        Raises:
            DataUnusable: it cannot be written. The folder has the last one as it was, or this one whole.
        """
        with _as_unusable(self.path):
            before = self._named()
            if before is not None:
                self._remove_others(before)
            folder = self.path / saved_format.folder_name(self._last_number() + 1)
            self._steps.make_folder(folder)
            try:
                self._write(snapshot, folder)
            except BaseException:
                self._remove(folder)
                raise
            self._steps.sync(self.path)
        self._remove_others(folder.name, before)

    def write_beside(self, snapshot: Snapshot, wall_ms: float) -> Path:
        """Keep a snapshot in a new folder in this one, which has its name by the time; return it. Raises as `write`."""
        at_ms = round(wall_ms)
        while (beside := self.path / f"kept-{at_ms}").exists():
            at_ms += 1
        with contextlib.closing(DataFolder(beside)) as folder:
            folder.write(snapshot)
        return beside

    def _write(self, snapshot: Snapshot, folder: Path) -> None:
        steps, new = self._steps, self.path / f"{MANIFEST}.new"
        logs = []
        for number, (tp, saved) in enumerate(sorted(snapshot.logs.items())):
            logs.append(saved_format.log_entry(number, tp, saved))
            path = folder / saved_format.log_name(number)
            steps.write(path, saved.batches)
            if saved.batches:  # otherwise the name is all, which the folder has
                steps.sync(path)
        steps.sync(folder)
        from importlib.metadata import version  # 1 MB with what it imports, for a cluster that is saved

        content = saved_format.manifest_of(snapshot, folder.name, logs, version("purgatorio"))
        if len(content) > MAX_MANIFEST_BYTES:
            raise DataUnusable(f"{self.path}: {MANIFEST} would have more than {MAX_MANIFEST_BYTES} bytes")
        steps.remove(new)
        steps.write(new, [content])
        steps.sync(new)
        steps.sync(self.path)
        steps.replace(new, self.path / MANIFEST)

    def _named(self) -> str | None:
        """Return the folder that `snapshot.json` names: "" if there is no such file, None if it cannot be read."""
        with contextlib.suppress(DataUnusable, FileRefused, OSError):
            manifest = self._manifest()
            return "" if manifest is None else manifest.folder
        return None

    def _last_number(self) -> int:
        return max((int(path.name.rpartition("-")[2]) for path in self._folders()), default=0)

    def _folders(self) -> Iterator[Path]:
        return (path for path in self.path.iterdir() if saved_format.is_folder_name(path.name))

    def _remove_others(self, named: str, before: str | None = None) -> None:
        """Remove the folder that `snapshot.json` named, and those that writes left, but for the one that it names."""
        with contextlib.suppress(OSError):
            for path in sorted({*self._folders(), *([self.path / before] if before else [])}):
                if path.name != named:
                    self._remove(path)

    def _remove(self, folder: Path) -> None:
        """Remove a folder if it is one, and has nothing but logs."""
        with contextlib.suppress(OSError):
            if not is_folder(folder):
                return
            files = sorted(folder.iterdir())
            if all(saved_format.is_log_name(file.name) and is_file(file) for file in files):
                for file in files:
                    self._steps.remove(file)
                self._steps.remove_folder(folder)


@contextlib.contextmanager
def _as_unusable(path: Path) -> Iterator[None]:
    """Raise DataUnusable for errors of the system, and for files that are refused."""
    try:
        yield
    except FileRefused as error:
        raise DataUnusable(str(error)) from None
    except OSError as error:
        raise DataUnusable(f"{error.filename or path}: {why(error)}") from None


def _locked(file: IO[Any]) -> bool:
    """Lock a file for this process; return whether it is. The system unlocks it when the process ends."""
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True  # Windows has no such lock; there the folder is the user's to keep apart
