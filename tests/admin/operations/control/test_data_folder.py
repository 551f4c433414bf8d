"""A snapshot in a folder: it reads back, is replaced at once, and what is newer or damaged is refused."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from purgatorio.admin.operations.control import files
from purgatorio.admin.operations.control.data_folder import MANIFEST, DataFolder, DataUnusable
from purgatorio.admin.operations.control.files import FileSteps
from purgatorio.broker.cluster.snapshots import SavedPartition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.admin.operations.control.saved import BATCHES, BILLS, ORDERS, snapshot

EPOCHS = "at byte 0: its epoch is 3, after the leader's, 2"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    """A folder for data in a folder that does not exist yet."""
    opened = DataFolder(tmp_path / "some" / "data")
    yield opened
    opened.close()


@pytest.fixture
def written(folder: DataFolder) -> DataFolder:
    """One with a snapshot: the log of bills-0 is the first file, that of orders-0 the second."""
    folder.write(snapshot())
    return folder


def edit(folder: DataFolder, /, **changed: Any) -> Any:
    """Change the manifest as one would by hand, without its CRC; return what it was."""
    path = folder.path / MANIFEST
    was = json.loads(path.read_text())
    path.write_text(json.dumps({**was, **changed, "crc32": None}))
    return was


def names(folder: DataFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def refusal(folder: DataFolder) -> str:
    """Return the sentence with which the folder is refused."""
    with pytest.raises(DataUnusable) as refused:
        folder.read()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_what_is_written_reads_back(folder: DataFolder) -> None:
    assert folder.read() is None
    folder.write(snapshot(()))
    folder.write(snapshot())
    assert folder.read() == snapshot()
    assert names(folder) == ["lock", "snapshot-2", MANIFEST]
    assert (folder.path / MANIFEST).stat().st_mode & 0o077 == 0
    assert (folder.path / "snapshot-2" / "1.log").read_bytes() == b"".join(BATCHES)


def test_a_partition_without_a_log_is_told(folder: DataFolder) -> None:
    whole = snapshot()
    folder.write(replace(whole, logs={tp: saved for tp, saved in whole.logs.items() if tp != BILLS}))
    assert refusal(folder) == f"{folder.path / MANIFEST} is damaged: it has no log of bills-0"


def test_a_folder_with_a_number_for_its_logs_is_read_and_replaced(written: DataFolder) -> None:
    (written.path / "snapshot-1").rename(written.path / "3")
    edit(written, folder=3)
    assert written.read() == snapshot()
    written.write(snapshot())
    assert names(written) == ["lock", "snapshot-1", MANIFEST]


def test_a_newer_format_is_refused_in_a_sentence(written: DataFolder) -> None:
    edit(written, format=2, written_by="9.0")
    newer = f"{written.path} was written by a newer version of Purgatorio"
    formats = "its format is 2, and this version reads formats up to 1"
    assert refusal(written) == f"{newer} (9.0): {formats}"
    edit(written, format=2, written_by="two\nlines")
    assert refusal(written) == f"{newer} (unknown): {formats}"


def test_newer_metadata_is_refused(written: DataFolder) -> None:
    metadata = json.loads((written.path / MANIFEST).read_text())["metadata"]
    edit(written, metadata={**metadata, "cluster": {**metadata["cluster"], "format": 9}})
    assert "was written by a newer version of Purgatorio: the keys have format 9" in refusal(written)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "it is no object, but []"),
        ("{}", "there is no field 'format'"),
        ('{"format": "1"}', "the format is a whole number from 1 to 9223372036854775807, not '1'"),
        ('{"format": true}', "the format is a whole number from 1 to 9223372036854775807, not True"),
        ('{"format": NaN}', "it is not JSON: NaN is no number of JSON"),
        ('{"format": 1}', "there is no field 'written_by'"),
        ('{"format": 1, "more": 1}', "there is no field ['more']"),
        ('{"format": 1, "crc32": 1}', "it is not as it was written: its crc32 differs"),
        ("\x00", "it is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("\udc80", "it is not JSON: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte"),
        ("[" * 100_000, "its values are nested too deeply"),
        ('{"format": 1' + "0" * 5_000 + "}", "it is not JSON: Exceeds the limit"),
        ("," * 4_000_001, "it has more than 4000000 values"),
    ],
)
def test_a_damaged_manifest_is_told(folder: DataFolder, content: str, why: str) -> None:
    (folder.path / MANIFEST).write_bytes(content.encode(errors="surrogateescape"))
    assert refusal(folder).startswith(f"{folder.path / MANIFEST} is damaged: {why}")


def test_a_manifest_without_an_end_is_not_read_to_its_end(folder: DataFolder) -> None:
    with (folder.path / MANIFEST).open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(folder) == f"{folder.path / MANIFEST} is damaged: it has more than 67108864 bytes"


def test_a_damaged_log_is_told(written: DataFolder) -> None:
    log = written.path / "snapshot-1" / "1.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    assert refusal(written) == f"{log} is damaged: it has {len(whole) - 1} bytes, not the {len(whole)} of orders-0"
    log.write_bytes(whole[:-1] + b"x")
    assert refusal(written).startswith(f"{log} is damaged: at byte {len(BATCHES[0])}: the batch is corrupt")
    log.unlink()
    assert refusal(written) == f"{written.path} is damaged: snapshot-1/1.log is missing"
    (written.path / "snapshot-1" / "0.log").unlink()
    (written.path / "snapshot-1").rmdir()
    assert refusal(written) == f"{written.path} is damaged: there is no folder snapshot-1"


@pytest.mark.parametrize(
    ("batches", "end_offset", "why"),
    [
        (BATCHES[:1], 5, "orders-0 ends at 5, and this at 4"),
        ((), 5, "orders-0 ends at 5, and this at 3"),
        (BATCHES[::-1], 5, f"at byte {len(BATCHES[1])}: a batch from 3 to 3 does not continue at 5"),
        ((build_batch([Record(3, 5, b"k", b"v")], base_offset=3, leader_epoch=3),), 4, EPOCHS),
        ((b"short",), 4, "there is no batch at byte 0"),
        ((BATCHES[0][:-1],), 4, "there is no batch at byte 0"),
        ((BATCHES[0], bytes(80)), 4, f"there is no batch at byte {len(BATCHES[0])}"),
    ],
)
def test_a_log_that_its_partition_cannot_have_is_told(
    folder: DataFolder, batches: tuple[bytes, ...], end_offset: int, why: str
) -> None:
    wrong = snapshot()
    folder.write(replace(wrong, logs={**wrong.logs, ORDERS: SavedPartition(3, end_offset, batches)}))
    assert refusal(folder) == f"{folder.path}/snapshot-1/1.log is damaged: {why}"


def test_logs_that_memory_does_not_hold_are_not_read(written: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "usable_memory_bytes", lambda: 10)
    bytes_there = sum(map(len, BATCHES))
    assert refusal(written) == f"{written.path} has {bytes_there} bytes, and there are 10 bytes of memory"


# --- files of other kinds ---


def _link_outside(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_text("theirs")
    path.symlink_to(outside)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        before = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)  # the path of a socket has at most 108 characters
        try:
            opened.bind(path.name)
        finally:
            os.fchdir(before)
            os.close(before)


OTHERS: dict[str, Callable[[Path], object]] = {
    "a link": _link_outside,
    "a link ": lambda path: path.symlink_to("/dev/zero"),
    "a link  ": lambda path: path.symlink_to("nowhere"),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", [MANIFEST, "snapshot-1/1.log", "lock"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, name: str, kind: str) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.write(snapshot())
    folder.close()
    path = folder.path / name
    path.unlink()
    OTHERS[kind](path)
    with pytest.raises(DataUnusable) as refused, closing(DataFolder(folder.path)) as opened:
        opened.read()
    assert str(refused.value) == f"{path} is {kind.strip()}, not a file"


def test_a_link_to_a_folder_with_logs_is_not_followed(written: DataFolder) -> None:
    outside = written.path.parent / "outside"
    (written.path / "snapshot-1").rename(outside)
    (written.path / "snapshot-1").symlink_to(outside)
    assert refusal(written) == f"{written.path} is damaged: there is no folder snapshot-1"


@pytest.mark.parametrize("kind", [kind for kind in OTHERS if kind != "a directory"])
def test_a_write_follows_no_link_and_waits_for_no_pipe(written: DataFolder, kind: str) -> None:
    OTHERS[kind](written.path / f"{MANIFEST}.new")
    written.write(snapshot())
    assert written.read() == snapshot()
    assert names(written) == ["lock", "snapshot-2", MANIFEST]
    outside = written.path.parent / "outside"
    assert not outside.exists() or outside.read_text() == "theirs"


def test_a_write_that_fails_leaves_what_was_there(written: DataFolder) -> None:
    (written.path / f"{MANIFEST}.new").mkdir()
    with pytest.raises(DataUnusable, match=r"snapshot\.json\.new: is a directory"):
        written.write(snapshot(()))
    assert written.read() == snapshot()
    assert names(written) == ["lock", "snapshot-1", MANIFEST, f"{MANIFEST}.new"]


def test_a_file_system_without_fsync_of_folders_will_do(written: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def of_files(opened: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(opened)

    monkeypatch.setattr(os, "fsync", of_files)
    written.write(snapshot())
    assert names(written) == ["lock", "snapshot-2", MANIFEST]


def test_a_disk_that_fails_is_told(written: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(opened: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataUnusable, match="input/output error"):
        written.write(snapshot(()))
    assert written.read() == snapshot()
    assert names(written) == ["lock", "snapshot-1", MANIFEST]


# --- what killed writes left ---


def test_what_killed_writes_left_is_removed_at_the_next_start(written: DataFolder) -> None:
    for number in (2, 3):
        (written.path / f"snapshot-{number}").mkdir()
        (written.path / f"snapshot-{number}" / "0.log").write_bytes(b"half a log")
    written.read()
    assert names(written) == ["lock", "snapshot-1", MANIFEST]


def test_nothing_else_is_removed(written: DataFolder) -> None:
    """Only folders of the very name, with nothing but logs in them: no links, and no folder of a user."""
    outside = written.path.parent / "outside"
    outside.mkdir()
    (outside / "0.log").write_text("theirs")
    (written.path / "snapshot-9").symlink_to(outside)
    for name in ("7", "snapshot-07", "snapshot-x", "lost+found"):
        (written.path / name).mkdir()
        (written.path / name / "0.log").write_text("theirs")
    for number, name in enumerate(("00.log", "0.log.gz", "notes"), 2):
        (written.path / f"snapshot-{number}").mkdir()
        (written.path / f"snapshot-{number}" / "0.log").write_text("theirs")
        (written.path / f"snapshot-{number}" / name).write_text("theirs")
    (written.path / "snapshot-5").mkdir()
    (written.path / "snapshot-5" / "0.log").symlink_to(outside / "0.log")
    before = sorted(written.path.rglob("*"))
    assert written.read() == snapshot()
    assert sorted(written.path.rglob("*")) == before
    written.write(snapshot())
    assert set(before) - set(written.path.rglob("*")) == set(filter(lambda path: "snapshot-1" in path.parts, before))
    assert (outside / "0.log").read_text() == "theirs"


def test_a_damaged_folder_is_left_as_it_is(written: DataFolder) -> None:
    """Also what writes left: it may be what its owner needs now."""
    (written.path / "snapshot-2").mkdir()
    (written.path / MANIFEST).write_text("{}")
    before = names(written)
    refusal(written)
    assert names(written) == before


# --- the folder itself ---


def test_a_folder_belongs_to_one_process(folder: DataFolder) -> None:
    with pytest.raises(DataUnusable, match="is used by another process"):
        DataFolder(folder.path)
    folder.close()
    DataFolder(folder.path).close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataUnusable, match=r"file: (file exists|not a directory)"):
        DataFolder(tmp_path / "file")


def test_the_disk_is_not_waited_for_for_each_empty_log(tmp_path: Path) -> None:
    """The end of a cluster with 10,000 such partitions took longer than a container has for it."""

    class CountedSteps(FileSteps):
        synced: ClassVar[list[str]] = []

        def sync(self, path: Path) -> None:
            self.synced.append(path.name)
            super().sync(path)

    folder = DataFolder(tmp_path / "data", CountedSteps())
    folder.write(snapshot())
    folder.close()
    assert CountedSteps.synced == ["1.log", "snapshot-1", "snapshot.json.new", "data", "data"]
