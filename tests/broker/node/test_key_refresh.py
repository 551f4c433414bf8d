"""The keys of tokens' issuers: when they are fetched, and what becomes of failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from purgatorio.broker.node.key_refresh import REFRESH_MS, RETRY_MS, keep_fresh
from purgatorio.broker.security.signed_tokens import KeySet, KeySetError
from purgatorio.purgatory.clock import ManualClock


class _Counting(KeySet):
    """Counts what it is given."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.documents: asyncio.Queue[bytes] = asyncio.Queue()

    def replace(self, text: str | bytes) -> int:
        assert isinstance(text, bytes)
        self.documents.put_nowait(text)
        if text != b"keys":
            raise KeySetError("not a key set")
        return 1


class _Clock(ManualClock):
    """Tells when the task waits: it has fetched, or failed to."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = asyncio.Event()

    async def sleep(self, delay_ms: float) -> None:
        self.waited.set()
        await super().sleep(delay_ms)


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("missed", [False, True])
async def test_keys_are_fetched_each_hour_or_when_one_is_missed(tmp_path: Path, missed: bool) -> None:
    """But not more often than each ten seconds."""
    document = tmp_path / "keys.json"
    document.write_text("keys")
    clock, keys = _Clock(), _Counting(document.as_uri())
    task = asyncio.create_task(keep_fresh(keys, clock))
    await keys.documents.get()
    await _turns()
    if missed:
        keys.missed()
    clock.advance_ms(RETRY_MS - 1)
    await _turns()
    assert keys.documents.empty()
    clock.advance_ms(1)
    await _turns()
    if not missed:
        clock.advance_ms(REFRESH_MS - RETRY_MS)
    await keys.documents.get()
    task.cancel()


async def test_a_failure_is_logged_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No file, and a file of something else."""
    document = tmp_path / "keys.json"
    clock, keys = _Clock(), _Counting(document.as_uri())
    task = asyncio.create_task(keep_fresh(keys, clock))
    await clock.waited.wait()
    assert "not fetched" in caplog.text
    document.write_text("no keys")
    await _turns()
    clock.advance_ms(RETRY_MS)
    assert await keys.documents.get() == b"no keys"
    document.write_text("keys")
    await _turns()
    assert caplog.text.count("not fetched") == 2
    clock.advance_ms(RETRY_MS)
    assert await keys.documents.get() == b"keys"
    task.cancel()


async def test_a_document_has_a_limit_and_no_other_address(caplog: pytest.LogCaptureFixture) -> None:
    """A redirect is not followed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if b"/moved" in line:
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"k" * 2_000_000)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for path, why in (("moved", "302"), ("keys", "more than")):
        keys = _Counting(f"http://127.0.0.1:{port}/{path}")
        clock = _Clock()
        task = asyncio.create_task(keep_fresh(keys, clock))
        await clock.waited.wait()
        assert why in caplog.text
        assert keys.documents.empty()
        task.cancel()
    server.close()
