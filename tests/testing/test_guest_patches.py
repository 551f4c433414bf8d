"""A cluster in a process where tests have put something else in the place of the standard library's own."""

from __future__ import annotations

import asyncio
import contextlib
import logging.config
import os
import random
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest
import pytest_socket
from confluent_kafka import Producer
from pyfakefs.fake_filesystem_unittest import Patcher

from purgatorio.testing import Kafka, cluster


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    state = random.getstate()
    random.seed(0)
    yield
    random.setstate(state)


@contextlib.contextmanager
def random_mocked() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in ("random", "randint", "choice", "shuffle", "sample", "getrandbits", "uniform", "randrange"):
            stack.enter_context(mock.patch(f"random.{name}", side_effect=AssertionError(f"random.{name} is a test's")))
        yield


@contextlib.contextmanager
def signals() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)}
    for each in before:
        signal.signal(each, signal.SIG_IGN)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@contextlib.contextmanager
def loggers_disabled() -> Iterator[None]:
    """As Django's or a service's own start does."""
    disabled = [each for each in _loggers() if each.disabled]
    handlers, level = logging.root.handlers[:], logging.root.level
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": True, "root": {"level": "ERROR"}})
    yield
    for each in _loggers():
        each.disabled = each in disabled
    logging.root.handlers[:], logging.root.level = handlers, level


def _loggers() -> list[logging.Logger]:
    return [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]


@contextlib.contextmanager
def shallow_recursion() -> Iterator[None]:
    before, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 100)
    yield
    sys.setrecursionlimit(before)


@contextlib.contextmanager
def warnings_as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class _NoLoops(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        raise RuntimeError("the loop is the window's, and there is one")

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        raise RuntimeError("the loop is the window's, and there is one")

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        raise RuntimeError("the loop is the window's, and there is one")


@contextlib.contextmanager
def own_policy() -> Iterator[None]:
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(_NoLoops())
    yield
    asyncio.set_event_loop_policy(before)


@contextlib.contextmanager
def no_sockets() -> Iterator[None]:
    pytest_socket.disable_socket()
    try:
        yield
        with pytest.warns(UserWarning, match="socket"), pytest.raises(pytest_socket.SocketBlockedError):
            socket.socket()
    finally:
        pytest_socket.enable_socket()


PATCHES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "random, seeded": seeded,
    "random, mocked": random_mocked,
    "os.environ, cleared": lambda: mock.patch.dict(os.environ, clear=True),
    "signal handlers": signals,
    "logging, existing loggers disabled": loggers_disabled,
    "recursion limit": shallow_recursion,
    "warnings as errors": warnings_as_errors,
    "asyncio's policy": own_policy,
    "time.sleep, without sleep": lambda: mock.patch("time.sleep"),
    "time.time and monotonic, mocked": lambda: mock.patch.multiple(time, time=lambda: 0.0, monotonic=lambda: 0.0),
    "builtins.open, mocked": lambda: mock.patch("builtins.open", mock.mock_open(read_data="a fake")),
    "pyfakefs": Patcher,
    "pytest-socket": no_sockets,
    "socket.socket, mocked": lambda: mock.patch("socket.socket", side_effect=AssertionError("a test's")),
    "threading.excepthook": lambda: mock.patch("threading.excepthook", side_effect=AssertionError("a test's")),
}
WITHIN = {name: patch for name, patch in PATCHES.items() if name != "socket.socket, mocked"}
"""uvloop keeps the class that it finds when it is imported."""
OF_PROCESSES = {name: patch for name, patch in WITHIN.items() if name != "builtins.open, mocked"}
"""The metrics of the supervisor's process are read by `open`, when the cluster is made."""


def works(kafka: Kafka) -> None:
    kafka.topic("orders")
    with Producer(kafka.client_config("confluent", "producer")) as producer:
        producer.produce("orders", b"tea")
        assert producer.flush(10) == 0
    kafka.kill(kafka.leader("orders"))
    kafka.produce("orders", "cake")
    assert [each.value for each in kafka.records("orders")] == [b"tea", b"cake"]
    kafka.start(next(each for each in (1, 2, 3) if each not in kafka.brokers))
    kafka.until_in_sync("orders").wait()


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES.keys())
def test_a_cluster_that_was_made_before(patch: Callable[[], AbstractContextManager[Any]]) -> None:
    with cluster() as kafka, patch():
        works(kafka)


@pytest.mark.slow
@pytest.mark.parametrize("patch", WITHIN.values(), ids=WITHIN.keys())
def test_a_cluster_that_is_made_within(patch: Callable[[], AbstractContextManager[Any]]) -> None:
    with patch(), cluster() as kafka:
        works(kafka)


@pytest.mark.ci
@pytest.mark.process
@pytest.mark.parametrize("patch", OF_PROCESSES.values(), ids=OF_PROCESSES.keys())
def test_a_cluster_of_processes(patch: Callable[[], AbstractContextManager[Any]]) -> None:
    with patch(), cluster(processes=True) as kafka:
        works(kafka)
