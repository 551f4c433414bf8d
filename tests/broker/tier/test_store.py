"""Tests of stores: what every one of them does."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.tier.obstore_store import open_store
from purgatorio.broker.tier.store import Exists, NotThere, Store, StoredObject


@pytest.fixture(params=["memory", "folder", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return open_store("memory:")
    pytest.importorskip("obstore")
    return open_store(str(tmp_path / "tier") if request.param == "folder" else request.getfixturevalue("s3"))


async def test_an_object_is_read_as_it_was_put_in_parts(store: Store) -> None:
    await store.put("a/b/1.log", [b"123", memoryview(bytearray(b"456"))], create=False)
    assert bytes(await store.get("a/b/1.log", 0, 6)) == b"123456"
    assert bytes(await store.get("a/b/1.log", 2, 3)) == b"345"


async def test_an_object_may_be_empty(store: Store) -> None:
    await store.put("a/x", [], create=False)
    assert bytes(await store.get("a/x", 0, 5)) == b""


async def test_a_read_beyond_the_end_is_short(store: Store) -> None:
    await store.put("a/1.log", [b"123"], create=False)
    assert bytes(await store.get("a/1.log", 2, 100)) == b"3"
    assert bytes(await store.get("a/1.log", 100, 100)) == b""


async def test_only_the_first_creates(store: Store) -> None:
    await store.put("a/1.json", [b"1"], create=True)
    with pytest.raises(Exists):
        await store.put("a/1.json", [b"2"], create=True)
    await store.put("a/1.json", [b"3"], create=False)
    assert bytes(await store.get("a/1.json", 0, 1)) == b"3"


async def test_objects_are_listed_by_their_folder(store: Store) -> None:
    for key in ("a/b/2.log", "a/b/1.log", "a/bc/1.log"):
        await store.put(key, [b"123"], create=False)
    assert sorted(await store.list("a/b/")) == [StoredObject("a/b/1.log", 3), StoredObject("a/b/2.log", 3)]
    assert list(await store.list("a/nothing/")) == []


async def test_what_is_deleted_is_not_there(store: Store) -> None:
    await store.put("a/1.log", [b"123"], create=False)
    await store.delete("a/1.log")
    await store.delete("a/1.log")
    with pytest.raises(NotThere):
        await store.get("a/1.log", 0, 1)
