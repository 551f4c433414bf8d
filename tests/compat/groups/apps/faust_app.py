"""Faust's word count: `BOOTSTRAP TOPIC COUNT`; prints words and how often it has seen them, in all of its runs."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from typing import Any

import faust

BOOTSTRAP, TOPIC, COUNT = sys.argv[1:]
app = faust.App(
    f"group-of-{TOPIC}",
    broker=[f"kafka://{address}" for address in BOOTSTRAP.split(",")],
    key_serializer="raw",
    value_serializer="raw",
    topic_replication_factor=3,
    topic_partitions=4,
    store="memory://",
    datadir=tempfile.mkdtemp(),
)
words = app.topic(TOPIC, partitions=4, internal=True)
counts = app.Table("counts", default=int, partitions=4, key_type=str, value_type=int)


@app.agent(words)
async def count(stream: Any) -> None:
    seen = 0
    async for event in stream.events():
        word = event.key.decode()
        counts[word] += 1
        os.write(1, f"{word} {counts[word]}\n".encode())
        seen += 1
        if seen == int(COUNT):
            signal.raise_signal(signal.SIGINT)


@app.task
async def send() -> None:
    await words.declare()
    for _ in range(int(COUNT)):
        await words.send(key=b"word", value=b"")


sys.argv[1:] = ["worker", "--without-web", "--loglevel", "warn"]
app.main()
