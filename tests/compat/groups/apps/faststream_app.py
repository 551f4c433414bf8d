"""FastStream's hello-world: `BOOTSTRAP TOPIC CLIENT COUNT`; greets names, and stops when it has read all greetings."""

from __future__ import annotations

import asyncio
import importlib
import sys

from faststream import FastStream

BOOTSTRAP, TOPIC, CLIENT, COUNT = sys.argv[1:]
broker = importlib.import_module(f"faststream.{CLIENT}").KafkaBroker(BOOTSTRAP.split(","), logger=None)
app = FastStream(broker, logger=None)
greeted: list[str] = []


@broker.subscriber(TOPIC, group_id=f"{TOPIC}-greeters", auto_offset_reset="earliest")
@broker.publisher(f"{TOPIC}-greetings")
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@broker.subscriber(f"{TOPIC}-greetings", group_id=f"{TOPIC}-readers", auto_offset_reset="earliest")
async def read(greeting: str) -> None:
    greeted.append(greeting)
    print(greeting, flush=True)
    if len(greeted) == int(COUNT):
        app.exit()


@app.after_startup
async def publish() -> None:
    for number in range(int(COUNT)):
        await broker.publish(f"user {number}", topic=TOPIC)


asyncio.run(app.run())
