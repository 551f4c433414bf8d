"""Tests of locations, and of the probe."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from purgatorio.broker.tier.location import FOLDER, MEMORY, PROBE_MS, Location, probe
from purgatorio.broker.tier.store import MemoryStore, Refused, Unavailable
from purgatorio.protocol.compression import Buffer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.tier.stores import TestStore


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("/var/tier", Location(FOLDER, "/var/tier")),
        ("tier", Location(FOLDER, str(Path.cwd() / "tier"))),
        ("./s3:shop", Location(FOLDER, str(Path.cwd() / "s3:shop"))),
        ("~/tier", Location(FOLDER, str(Path.home() / "tier"))),
        ("file:///var/my%20tier", Location(FOLDER, "/var/my tier")),
        ("memory:", Location(MEMORY, "memory")),
        ("memory:///", Location(MEMORY, "memory")),
        ("s3://shop", Location("s3", "s3://shop", "shop")),
        ("S3://shop/a/b/", Location("s3", "s3://shop/a/b", "shop")),
        ("gs://shop/a", Location("gs", "gs://shop/a", "shop")),
        ("az://shop/a", Location("az", "az://shop/a", "shop")),
    ],
)
def test_a_location_is_a_folder_memory_or_a_bucket(text: str, location: Location) -> None:
    assert Location.parse(text) == location


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ftp://shop/a", r"there is no store for ftp: – it is a folder, s3://.* \(a folder of that name is \./ftp:…\)"),
        ("http://shop/a", "there is no store for http"),
        ("file:tier", "there is no store for file"),
        ("memory:x", "there is no store for memory"),
        ("s3:shop", "s3:shop names no bucket with a prefix; it is s3://BUCKET/PREFIX"),
        ("s3:///a", "names no bucket"),
        ("s3://shop/a//b", "names no bucket with a prefix"),
        ("s3://shop/../b", "names no bucket with a prefix"),
        ("s3://shop/a?region=b", r"is s3://BUCKET/PREFIX and no more; set AWS_ACCESS_KEY_ID and AWS_SECRET"),
    ],
)
def test_what_is_no_location_is_refused_with_the_forms(text: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        Location.parse(text)


def test_a_secret_in_a_location_is_refused_and_not_repeated() -> None:
    with pytest.raises(Refused) as caught:
        Location.parse("s3://key:secret@shop/a")
    assert "secret@" not in str(caught.value)


class CarelessStore(MemoryStore):
    """A store that ignores If-None-Match, as versitygw with --nometa."""

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        await super().put(key, parts, create=False)


async def test_the_probe_leaves_nothing() -> None:
    store = MemoryStore()
    await probe(store, ManualClock(), "probe")
    assert not store.objects


async def test_a_store_that_creates_twice_is_refused() -> None:
    store = CarelessStore()
    with pytest.raises(
        Refused, match=r"^the memory store creates an object .* take a store that .* \(versitygw: without --nometa\)"
    ):
        await probe(store, ManualClock(), "probe")
    assert not store.objects


async def test_a_store_that_does_not_answer_is_waited_for_a_while() -> None:
    class SilentStore(MemoryStore):
        async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
            await asyncio.Event().wait()

    clock = ManualClock()
    probing = asyncio.create_task(probe(SilentStore(), clock, "probe"))
    await asyncio.sleep(0)
    clock.advance_ms(PROBE_MS)
    with pytest.raises(Unavailable, match=r"^the memory store does not answer in 10 s$"):
        await probing


async def test_what_the_store_says_to_the_probe_is_passed_on() -> None:
    store = TestStore()
    store.troubles["put"] = [Refused("no such bucket")]
    with pytest.raises(Refused, match="no such bucket"):
        await probe(store, ManualClock(), "probe")
