"""A snapshot in a folder: it reads back, is replaced at once, and what is newer or damaged is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.clients import QuotaEntity
from purgatorio.broker.metadata.image import BrokerIncarnation, PartitionState, Topic
from purgatorio.broker.operations.control.data_folder import MANIFEST, DataFolder, DataUnusable
from purgatorio.broker.operations.control.snapshots import SavedPartition, Snapshot
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

BATCHES = tuple(build_batch([Record(offset, 5, b"k", b"v")], base_offset=offset) for offset in (3, 4))
TP = TopicPartition("orders", 0)


def snapshot(batches: tuple[bytes, ...] = BATCHES) -> Snapshot:
    state = PartitionState(1, 2, (1, 2), (BrokerIncarnation(1, 11), BrokerIncarnation(2, 12)), 3)
    quotas = {QuotaEntity(user="alice"): {"producer_byte_rate": 1000.0}}
    groups = {"jobs": {"share.auto.offset.reset": "earliest"}}
    return Snapshot(
        {"orders": Topic("orders", bytes(range(16)), (state,), {"retention.ms": "1"})},
        {TP: SavedPartition(3, 5, batches)},
        {"": {"log.cleaner.threads": "2"}},
        77,
        {"client_quotas": quotas, "acls": {}, "scram_credentials": {}, "group_configs": groups},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    """A folder for data in a folder that does not exist yet."""
    opened = DataFolder(tmp_path / "some" / "data")
    yield opened
    opened.close()


def manifest(folder: DataFolder, **changed: Any) -> Any:
    """Change the manifest; return what it was."""
    path = folder.path / MANIFEST
    was = json.loads(path.read_text())
    path.write_text(json.dumps({**was, **changed}))
    return was


def test_what_is_written_reads_back(folder: DataFolder) -> None:
    assert folder.read() is None
    folder.write(snapshot(()))
    folder.write(snapshot())
    assert folder.read() == snapshot()
    assert sorted(path.name for path in folder.path.iterdir()) == ["2", "lock", MANIFEST]
    assert (folder.path / MANIFEST).stat().st_mode & 0o077 == 0


def test_a_newer_format_is_refused_in_a_sentence(folder: DataFolder) -> None:
    folder.write(snapshot())
    manifest(folder, format=2, written_by="9.0")
    with pytest.raises(DataUnusable) as refused:
        folder.read()
    assert str(refused.value) == (
        f"{folder.path} was written by a newer version of Purgatorio (9.0): its format is 2, and this version reads "
        "formats up to 1"
    )


def test_newer_metadata_is_refused(folder: DataFolder) -> None:
    folder.write(snapshot())
    metadata = manifest(folder)["metadata"]
    manifest(folder, metadata={**metadata, "cluster": {**metadata["cluster"], "format": 9}})
    with pytest.raises(DataUnusable, match="was written by a newer version of Purgatorio"):
        folder.read()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "1"}', '{"format": 0}', '{"format": 1}', "\x00"])
def test_a_damaged_manifest_is_told(folder: DataFolder, content: str) -> None:
    (folder.path / MANIFEST).write_text(content)
    with pytest.raises(DataUnusable, match=r"snapshot\.json is damaged: "):
        folder.read()


def test_a_damaged_log_is_told(folder: DataFolder) -> None:
    folder.write(snapshot())
    (log,) = (folder.path / "1").iterdir()
    whole = log.read_bytes()
    log.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DataUnusable, match="is damaged: the file of orders-0 is not as it was written"):
        folder.read()
    log.unlink()
    with pytest.raises(DataUnusable, match=r"is damaged: 0\.log is missing"):
        folder.read()


@pytest.mark.parametrize("batches", [(b"short",), (BATCHES[0][:-1],), (bytes(12),)])
def test_a_log_without_whole_batches_is_told(folder: DataFolder, batches: tuple[bytes, ...]) -> None:
    folder.write(snapshot(batches))
    with pytest.raises(DataUnusable, match="there is no batch at byte 0 of a log"):
        folder.read()


def test_a_write_that_fails_leaves_what_was_there(folder: DataFolder) -> None:
    folder.write(snapshot())
    (folder.path / f"{MANIFEST}.new").mkdir()
    with pytest.raises(DataUnusable, match="is a directory"):
        folder.write(snapshot(()))
    assert folder.read() == snapshot()
    assert not (folder.path / "2").exists()


def test_a_folder_belongs_to_one_process(folder: DataFolder) -> None:
    with pytest.raises(DataUnusable, match="is used by another process"):
        DataFolder(folder.path)
    folder.close()
    DataFolder(folder.path).close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataUnusable, match=r"file: (file exists|not a directory)"):
        DataFolder(tmp_path / "file")
