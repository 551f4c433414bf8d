"""Makes a `Snapshot` of the files of a folder for data, and the other way round (docs/data.md).

All is checked when it is read, before a broker starts: what cannot have been written so is `Damaged`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final, NamedTuple

from purgatorio.admin.operations.control import saved_metadata
from purgatorio.admin.operations.control.damage import Damaged, one_line, require, shown, whole
from purgatorio.broker.cluster.restart import partitions_of
from purgatorio.broker.cluster.snapshots import SavedPartition, Snapshot
from purgatorio.broker.log.errors import LogError
from purgatorio.broker.log.segment import BATCH_OVERHEAD_BYTES
from purgatorio.broker.log.setting import MAX_INT
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import check_fetched
from purgatorio.broker.metadata import keys
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.records import MAGIC

FORMAT: Final = 1
"""The version of what is written here. A newer one is refused."""
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
"""The largest manifest. 20,000 partitions, the most of a cluster, take 6 MB, and 100,000 ACLs some 15 MB."""
MAX_VALUES: Final = 4_000_000
"""The most values in a manifest, by its commas and brackets: each takes 60 bytes or more when it is read."""
_FIELDS: Final = ("format", "written_by", "folder", "metadata", "logs", "ended", "crc32")
_LOG_FIELDS: Final = ("topic", "partition", "start_offset", "end_offset", "file", "size_bytes", "crc32")
_FOLDER: Final = re.compile(r"snapshot-[1-9][0-9]{0,17}")
_LOG: Final = re.compile(r"(0|[1-9][0-9]{0,9})\.log")
_HEAD_BYTES: Final = 17
"""The beginning of a batch, with its length and its magic."""
_LENGTH_END: Final = 12
"""The length of a batch counts the bytes from here on."""
_MAX_VERSION_CHARS: Final = 50
_BY_A_NEWER_ONE: Final = "was written by a newer version of Purgatorio"


class NewerFormat(Exception):
    """A newer version of Purgatorio wrote it; the message says so, for the end of a sentence."""


class SavedLog(NamedTuple):
    """A log as the manifest describes it.

    Attributes:
        leader_epoch: that of the partition; no batch has a higher one.
        file_name: its file, in the manifest's folder.
    """

    tp: TopicPartition
    leader_epoch: int
    start_offset: int
    end_offset: int
    file_name: str
    size_bytes: int
    crc32: int


class Manifest(NamedTuple):
    """The content of `snapshot.json`.

    Attributes:
        folder: the name of the folder with the logs.
        image: the metadata, without brokers.
        ended: whether the cluster had ended when this was written, so that it is all there was.
    """

    folder: str
    image: ClusterImage
    logs: Sequence[SavedLog]
    ended: bool = True


# --- writing ---


def log_entry(number: int, tp: TopicPartition, saved: SavedPartition) -> dict[str, Any]:
    """Return what the manifest says of a log whose file has this number."""
    crc, size_bytes = 0, 0
    for batches in saved.batches:
        crc, size_bytes = zlib.crc32(batches, crc), size_bytes + len(batches)
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "start_offset": saved.start_offset,
        "end_offset": saved.end_offset,
        "file": number,
        "size_bytes": size_bytes,
        "crc32": crc,
    }


def manifest_of(
    snapshot: Snapshot, folder: str, logs: Sequence[Mapping[str, Any]], written_by: str, *, ended: bool = True
) -> bytes:
    """Return the manifest of a snapshot.

    Args:
        folder: the name of the folder with the logs.
        logs: the entries of the logs, one for each partition.
        written_by: the version of Purgatorio.
        ended: see `Manifest`.
    """
    image = ClusterImage(
        version=0,
        cluster_id="",
        broker_configs=snapshot.broker_configs,
        next_producer_id=snapshot.next_producer_id,
        **snapshot.metadata,
    ).with_topics(snapshot.topics.values())
    manifest = {
        "format": FORMAT,
        "written_by": written_by,
        "folder": folder,
        "metadata": saved_metadata.written(image),
        "logs": logs,
        **({} if ended else {"ended": False}),
    }
    return json.dumps({**manifest, "crc32": _crc32(manifest)}, indent=1).encode()


def _crc32(manifest: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a manifest without this field: of its JSON, with sorted names and without spaces."""
    return zlib.crc32(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())


# --- reading ---


def read_manifest(content: bytes) -> Manifest:
    """Return what a manifest says.

    Raises:
        NewerFormat: a newer version wrote it.
        Damaged: it cannot have been written so.
    """
    try:
        manifest = _parsed(content)
        _check_format(manifest)
        unknown = [name for name in manifest if name not in _FIELDS]
        require(not unknown, f"there is no field {shown(unknown[:1])}")
        crc = manifest.pop("crc32", None)  # an edited manifest may leave it out
        require(crc is None or crc == _crc32(manifest), "it is not as it was written: its crc32 differs")
        require(isinstance(manifest["written_by"], str), "it does not say which version wrote it")
        image = saved_metadata.read(manifest["metadata"])
        logs = _logs(manifest["logs"], image)
        for tp, _ in partitions_of(image):
            require(tp in logs, f"it has no log of {tp}")
        ended = manifest.get("ended", True)
        require(isinstance(ended, bool), "it does not say whether the cluster had ended")
        return Manifest(_folder(manifest["folder"]), image, list(logs.values()), ended)
    except KeyError as error:
        raise Damaged(f"there is no field {shown(error.args[0])}") from None
    except keys.UnknownFormat as error:
        raise NewerFormat(f"{_BY_A_NEWER_ONE}: {error}") from None
    except RecursionError:
        raise Damaged("its values are nested too deeply") from None


def _parsed(content: bytes) -> dict[str, Any]:
    require(sum(map(content.count, (b",", b"[", b"{"))) <= MAX_VALUES, f"it has more than {MAX_VALUES} values")
    try:
        manifest = json.loads(content.decode(), parse_constant=_no_number)
    except ValueError as error:
        raise Damaged(f"it is not JSON: {one_line(error)}") from None
    require(isinstance(manifest, dict), f"it is no object, but {shown(manifest)}")
    return dict(manifest)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _check_format(manifest: Mapping[str, Any]) -> None:
    found = whole(manifest["format"], "the format", low=1)
    if found > FORMAT:
        by = manifest.get("written_by")
        if not isinstance(by, str) or not by.isprintable() or len(by) > _MAX_VERSION_CHARS:
            by = "unknown"
        formats = f"its format is {found}, and this version reads formats up to {FORMAT}"
        raise NewerFormat(f"{_BY_A_NEWER_ONE} ({by}): {formats}")


def _folder(given: Any) -> str:
    """Return the name of the folder with the logs, which the first manifests gave as a number."""
    if isinstance(given, str) and is_folder_name(given):
        return given
    return str(whole(given, "the folder", low=1))


def folder_name(number: int) -> str:
    """Return the name of a folder with logs."""
    return f"snapshot-{number}"


def is_folder_name(name: str) -> bool:
    """Return whether `folder_name` gives this name."""
    return _FOLDER.fullmatch(name) is not None


def _logs(given: Any, image: ClusterImage) -> dict[TopicPartition, SavedLog]:
    require(isinstance(given, list), f"its logs are no list, but {shown(given)}")
    logs: dict[TopicPartition, SavedLog] = {}
    for each in given:
        require(isinstance(each, dict) and sorted(each) == sorted(_LOG_FIELDS), f"a log cannot be {shown(each)}")
        topic, partition = each["topic"], whole(each["partition"], "the partition of a log", high=MAX_INT)
        state = image.partition(topic, partition) if isinstance(topic, str) else None
        if state is None:
            raise Damaged(f"it has a log of {shown(topic)}-{partition}, which its topics lack")
        tp = TopicPartition(topic, partition)
        require(tp not in logs, f"it has two logs of {tp}")
        start_offset = whole(each["start_offset"], f"the start offset of {tp}")
        logs[tp] = SavedLog(
            tp,
            state.leader_epoch,
            start_offset,
            whole(each["end_offset"], f"the end offset of {tp}", low=start_offset),
            log_name(whole(each["file"], f"the file of {tp}", high=MAX_INT)),
            whole(each["size_bytes"], f"the size of {tp}"),
            whole(each["crc32"], f"the crc32 of {tp}"),
        )
    require(len({log.file_name for log in logs.values()}) == len(logs), "two logs have the same file")
    return logs


def log_name(number: int) -> str:
    """Return the name of the file of a log."""
    return f"{number}.log"


def is_log_name(name: str) -> bool:
    """Return whether `log_name` gives this name."""
    return _LOG.fullmatch(name) is not None


def read_log(file: IO[bytes], size_bytes: int, log: SavedLog) -> SavedPartition:
    """Return the log that a file of a size has.

    Reads a batch at a time: what is no log is found at its first batch, however long the file is.

    Raises:
        Damaged: it is not the log that was written.
    """
    require(size_bytes == log.size_bytes, f"it has {size_bytes} bytes, not the {log.size_bytes} of {log.tp}")
    batches: list[bytes] = []
    position, crc, next_offset = 0, 0, log.start_offset
    while position < size_bytes:
        batch = _read_batch(file, size_bytes - position)
        require(bool(batch), f"there is no batch at byte {position}")
        try:
            ((header, _),) = check_fetched(batch, next_offset, leader_epoch=None, is_empty=not batches)
        except LogError as error:
            raise Damaged(f"at byte {position}: {one_line(error)}") from None
        epoch = header.partition_leader_epoch
        require(
            epoch <= log.leader_epoch,
            f"at byte {position}: its epoch is {epoch}, after the leader's, {log.leader_epoch}",
        )
        batches.append(batch)
        position, crc, next_offset = position + len(batch), zlib.crc32(batch, crc), header.last_offset + 1
    require(crc == log.crc32, f"it is not as it was written: the crc32 of {log.tp} differs")
    require(next_offset == log.end_offset, f"{log.tp} ends at {log.end_offset}, and this at {next_offset}")
    overhead_bytes = len(batches) * BATCH_OVERHEAD_BYTES
    return SavedPartition(log.start_offset, log.end_offset, tuple(batches), overhead_bytes)


def _read_batch(file: IO[bytes], left_bytes: int) -> bytes:
    """Return the next batch; nothing if there is none."""
    head = file.read(_HEAD_BYTES)
    size_bytes = _LENGTH_END + int.from_bytes(head[8:_LENGTH_END], "big", signed=True)
    if head[_HEAD_BYTES - 1 :] != bytes([MAGIC]) or not _HEAD_BYTES <= size_bytes <= left_bytes:
        return b""
    return head + file.read(size_bytes - _HEAD_BYTES)
