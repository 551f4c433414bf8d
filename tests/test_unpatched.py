"""Tests of what stays as it is while tests patch the standard library."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest
import time_machine
from freezegun import freeze_time

from purgatorio import unpatched


@pytest.mark.slow
def test_the_time_is_the_machines_under_freezegun() -> None:
    before, wall_before = time.monotonic(), time.time()
    with freeze_time("2020-01-01"):
        now, now_ns, wall = unpatched.monotonic(), unpatched.monotonic_ns(), unpatched.wall_ns()
    assert before <= now <= now_ns / 1e9 <= time.monotonic()
    assert 0 <= wall / 1e9 - wall_before < 60


def test_the_wall_time_is_the_machines_under_time_machine() -> None:
    before = time.time()
    with time_machine.travel("2020-01-01", tick=False):
        assert time.time() < before - 1e6
        assert 0 <= unpatched.wall_ns() / 1e9 - before < 60
    assert 0 <= unpatched.wall_ns() / 1e9 - before < 60


def test_no_reading_is_a_travellers_while_another_thread_begins_and_ends_travels() -> None:
    over = threading.Event()

    def travel() -> None:
        while not over.is_set():
            with time_machine.travel("2020-01-01", tick=False):
                pass

    switching_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    traveller = threading.Thread(target=travel)
    traveller.start()
    try:
        readings = [unpatched.wall_ns() for _ in range(2_000)]
    finally:
        over.set()
        traveller.join()
        sys.setswitchinterval(switching_seconds)
    assert max(readings) - min(readings) < 60 * 10**9


def test_the_wall_time_can_be_read_while_time_machine_is_imported() -> None:
    with mock.patch.dict(sys.modules, {"time_machine": sys}):  # a module without what it will have
        assert abs(unpatched.wall_ns() / 1e9 - time.time()) < 60


def test_threads_are_the_systems_unless_gevent_or_eventlet_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpatched.hub() == ""
    monkeypatch.setattr("_thread.start_new_thread", lambda function, arguments: None)  # a debugger's
    assert unpatched.hub() == ""


def test_a_thread_of_the_system_ends_with_its_function() -> None:
    go_on = threading.Event()
    thread = unpatched.SystemThread(go_on.wait)
    thread.start()
    assert thread.is_alive()
    thread.join(0)
    assert thread.is_alive()
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()


def test_an_executor_tells_what_calls_return_and_raise() -> None:
    with unpatched.SystemThreads() as threads:
        assert threads.submit(pow, 2, exp=3).result(10) == 8
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 1, 0).result(10)


def test_modules_are_the_standard_librarys_until_something_is_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (unpatched.plain_socket(), unpatched.plain_subprocess()) == (socket, subprocess)
    monkeypatch.setattr("socket.socket", mock.Mock())
    plain = unpatched.plain_socket()
    assert plain is not socket
    first, second = plain.socketpair()
    with first, second:
        assert first.family == socket.AF_UNIX
    assert unpatched.plain_socket() is plain
