"""The common part of the toy programs: their command line, their client, and how they end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import FAILURES, KafkaClient
from purgatorio.client.link import Address, StreamLink

DEFAULT_PORT = 9092
INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C ended


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the common options."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--bootstrap",
        type=lambda text: [address(each) for each in text.split(",")],
        default="localhost:9092",
        help="host:port of brokers, comma-separated (localhost:9092)",
    )
    made.add_argument("--topic", default="orders", help="the topic; created if it does not exist (orders)")
    return made


def address(text: str) -> Address:
    """Return host and port."""
    host, _, port = (text if ":" in text else f"{text}:{DEFAULT_PORT}").strip().rpartition(":")
    return host, int(port)


def new_client(options: argparse.Namespace) -> KafkaClient[StreamLink]:
    """Make a client, which opens connections when it needs them."""
    clock = SystemClock()
    return KafkaClient(partial(StreamLink.open, clock, "toy"), lambda: options.bootstrap, clock=clock)


def run(program: Callable[[argparse.Namespace], Coroutine[Any, Any, int]], options: argparse.Namespace) -> int:
    """Run a toy program until it ends, fails or is interrupted; returns the exit status."""
    status = INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        try:
            status = asyncio.run(program(options))
        except* FAILURES as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):  # one of several tasks failed
                error = error.exceptions[0]
            print(error, file=sys.stderr)
            status = 1
    return status
