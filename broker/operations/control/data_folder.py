"""A snapshot in a folder, with which a cluster begins, and which it writes at its end (docs/data.md).

::

    DIR/snapshot.json   the format's version, the metadata, and for each partition its offsets, file, size and CRC-32
    DIR/3/7.log         the record batches of a partition, one after the other, as Kafka keeps and sends them
    DIR/lock            held by the process that uses the folder

A new snapshot is written to a new folder beside the last one. `snapshot.json`, which names its folder, is then replaced
at once: a process that dies on the way leaves the last snapshot as it was. It may hold credentials, so that only its
owner may read it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from io import BufferedRandom
from pathlib import Path
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata import keys
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.operations.control.snapshots import CLUSTER_METADATA, SavedPartition, Snapshot

FORMAT: Final = 1
"""The version of what is written here. A folder of a newer one is refused."""
MANIFEST: Final = "snapshot.json"
LOCK: Final = "lock"
_BATCH_HEAD_BYTES: Final = 12
"""The base offset and the length that begin each batch; the length counts what is behind it."""


class DataUnusable(Exception):
    """The folder cannot be used; the message says why."""


class DataFolder:
    """A folder that belongs to this process until `close`.

    Args:
        path: it is made if it does not exist.

    Raises:
        DataUnusable: it cannot be written to, or another process uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock: BufferedRandom = (path / LOCK).open("a+b")
        except OSError as error:
            raise DataUnusable(f"{path}: {(error.strerror or str(error)).lower()}") from None
        if not _locked(self._lock):
            self._lock.close()
            raise DataUnusable(f"{path} is used by another process")

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()

    # --- reading ---

    def read(self) -> Snapshot | None:
        """Return the snapshot; None if there is none yet.

        Raises:
            DataUnusable: a newer version wrote it, or it is damaged.
        """
        file = self.path / MANIFEST
        try:
            manifest = json.loads(file.read_bytes())
            self._check_format(manifest)
            return self._snapshot_of(manifest)
        except FileNotFoundError as error:
            if error.filename == str(file):
                return None
            raise DataUnusable(f"{self.path} is damaged: {Path(error.filename).name} is missing") from None
        except OSError as error:
            raise DataUnusable(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
        except keys.UnknownFormat as error:
            raise DataUnusable(f"{self.path} was written by a newer version of Purgatorio: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataUnusable(f"{file} is damaged: {type(error).__name__}: {error}") from None

    def _check_format(self, manifest: Any) -> None:
        found = manifest["format"]
        if not isinstance(found, int) or found < 1:
            raise ValueError(f"format {found!r} is none")
        if found > FORMAT:
            raise DataUnusable(
                f"{self.path} was written by a newer version of Purgatorio ({manifest.get('written_by', 'unknown')}): "
                f"its format is {found}, and this version reads formats up to {FORMAT}"
            )

    def _snapshot_of(self, manifest: Mapping[str, Any]) -> Snapshot:
        image = keys.image_of({key: json.dumps(value).encode() for key, value in manifest["metadata"].items()})
        logs = {}
        for each in manifest["logs"]:
            data = (self.path / str(int(manifest["folder"])) / f"{int(each['file'])}.log").read_bytes()
            tp = TopicPartition(each["topic"], each["partition"])
            if (len(data), zlib.crc32(data)) != (each["size_bytes"], each["crc32"]):
                raise DataUnusable(f"{self.path} is damaged: the file of {tp} is not as it was written")
            logs[tp] = SavedPartition(each["start_offset"], each["end_offset"], tuple(_batches(data)))
        metadata = {name: getattr(image, name) for name in CLUSTER_METADATA}
        return Snapshot(dict(image.topics), logs, image.broker_configs, image.next_producer_id, metadata)

    # --- writing ---

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the last one.

        Raises:
            DataUnusable: it cannot be written; the last one is there as it was.
        """
        try:
            self._write(snapshot)
        except OSError as error:
            raise DataUnusable(f"{self.path}: {(error.strerror or str(error)).lower()}") from None

    def _write(self, snapshot: Snapshot) -> None:
        before = self._folders()
        folder = self.path / str(max(before, default=0) + 1)
        folder.mkdir(mode=0o700)
        try:
            logs = [
                _write_log(folder, number, tp, saved)
                for number, (tp, saved) in enumerate(sorted(snapshot.logs.items()))
            ]
            manifest = {
                "format": FORMAT,
                "written_by": version("purgatorio"),
                "folder": int(folder.name),
                "metadata": {key: json.loads(value) for key, value in keys.all_keys(_image_of(snapshot)).items()},
                "logs": logs,
            }
            _write_file(self.path / f"{MANIFEST}.new", json.dumps(manifest, indent=1).encode())
            (self.path / f"{MANIFEST}.new").replace(self.path / MANIFEST)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for each in before:
            shutil.rmtree(self.path / str(each), ignore_errors=True)

    def _folders(self) -> list[int]:
        return [int(path.name) for path in self.path.iterdir() if path.name.isdecimal() and path.is_dir()]


def _image_of(snapshot: Snapshot) -> ClusterImage:
    """Return an image with the metadata of a snapshot, and without brokers."""
    image = ClusterImage(
        version=0,
        cluster_id="",
        broker_configs=snapshot.broker_configs,
        next_producer_id=snapshot.next_producer_id,
        **snapshot.metadata,
    )
    return image.with_topics(snapshot.topics.values())


def _write_log(folder: Path, number: int, tp: TopicPartition, saved: SavedPartition) -> dict[str, Any]:
    crc, size_bytes = 0, 0
    with (folder / f"{number}.log").open("xb") as file:
        for part in saved.batches:
            file.write(part)
            crc, size_bytes = zlib.crc32(part, crc), size_bytes + len(part)
        file.flush()
        os.fsync(file.fileno())
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "start_offset": saved.start_offset,
        "end_offset": saved.end_offset,
        "file": number,
        "size_bytes": size_bytes,
        "crc32": crc,
    }


def _write_file(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _batches(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        head = data[position : position + _BATCH_HEAD_BYTES]
        end = position + _BATCH_HEAD_BYTES + int.from_bytes(head[8:], "big")
        if len(head) < _BATCH_HEAD_BYTES or not position + _BATCH_HEAD_BYTES < end <= len(data):
            raise ValueError(f"there is no batch at byte {position} of a log")
        yield data[position:end]
        position = end


def _locked(file: BufferedRandom) -> bool:
    """Lock a file for this process; return whether it is. The system unlocks it when the process ends."""
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True  # Windows has no such lock; there the folder is the user's to keep apart
