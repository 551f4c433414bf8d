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
from purgatorio.client.client import FAILURES, REQUEST_TIMEOUT_MS, KafkaClient
from purgatorio.client.link import Address, StreamLink

DEFAULT_PORT = 9092
INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C ended


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the common options."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--bootstrap",
        type=addresses,
        default="localhost:9092",
        help="host:port of brokers, comma-separated (localhost:9092)",
    )
    made.add_argument("--topic", default="orders", help="the topic; created if it does not exist (orders)")
    return made


def addresses(text: str) -> list[Address]:
    """Return hosts and ports."""
    found = []
    for each in text.split(","):
        host, _, port = (each if ":" in each else f"{each}:{DEFAULT_PORT}").strip().rpartition(":")
        if not port.isdecimal():
            raise argparse.ArgumentTypeError(f"{each!r} has no port that is a number")
        found.append((host, int(port)))
    return found


def new_client(options: argparse.Namespace, wait_ms: int) -> KafkaClient[StreamLink]:
    """Make a client, which opens connections when it needs them, for requests that brokers hold for so long."""
    clock = SystemClock()
    open_link = partial(StreamLink.open, clock, "toy")
    timeout_ms = wait_ms + REQUEST_TIMEOUT_MS
    return KafkaClient(open_link, lambda: options.bootstrap, clock=clock, timeout_ms=timeout_ms)


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
