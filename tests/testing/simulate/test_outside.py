"""What reaches out of a simulation is simulated, or refused with a sentence; afterwards everything is as before."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import confluent_kafka
import confluent_kafka.admin
import pytest

from purgatorio.testing.simulate import Outcome, SimulationFailed, World, simulate
from purgatorio.testing.simulate.loop import TURNS_BETWEEN_LOOKS

pytestmark = pytest.mark.simulation


def run(work: Callable[[], Any], **options: Any) -> Outcome:
    """Run a coroutine function as a service, without faults."""

    async def scenario(world: World) -> None:
        world.service("worker", work)
        await asyncio.sleep(10)

    outcome: Outcome = simulate(scenario, seed=1, faults=(), brokers=1, **options)
    return outcome


def refusals(outcome: Outcome) -> list[str]:
    return [str(failure.error) for failure in outcome.failures]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sleep": (lambda: time.sleep(0), "time.sleep would stop all processes"),
    "thread": (lambda: threading.Thread(target=print).start(), "a thread cannot be started"),
    "socket": (lambda: socket.socket().connect(("127.0.0.1", 9092)), "a socket of the machine cannot be used"),
    "name": (lambda: socket.getaddrinfo("localhost", 1), "names are not looked up"),
    "process": (lambda: os.system("true"), "a process cannot be started"),
    "librdkafka": (lambda: confluent_kafka.Producer({}), "librdkafka has threads and sockets of its own"),
    "reader": (lambda: asyncio.get_running_loop().add_reader(0, print), "a file descriptor cannot be simulated"),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_simulated_is_refused_even_if_the_service_swallows_it(name: str) -> None:
    ask, sentence = REFUSED[name]

    async def work() -> None:
        with contextlib.suppress(Exception):  # as a client that tries again later
            ask()

    (refusal,) = refusals(run(work))
    assert refusal.startswith(sentence)


class OwnProducer(confluent_kafka.Producer):  # type: ignore[misc]
    """As services have them; made before the simulation."""


def make_subclass() -> None:
    """Define a class as a module does that is first imported in a simulation."""

    class Late(confluent_kafka.Consumer):  # type: ignore[misc]
        pass

    Late({"group.id": "g"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: confluent_kafka.Consumer({"group.id": "g"}),
        lambda: confluent_kafka.cimpl.Producer({}),
        lambda: confluent_kafka.SerializingProducer({}),
        lambda: confluent_kafka.admin.AdminClient({}),
        lambda: OwnProducer({}),
        make_subclass,
    ],
)
def test_no_client_of_librdkafka_can_be_made_in_a_simulation_and_any_outside(make: Callable[[], object]) -> None:
    async def work() -> None:
        make()

    (refusal,) = refusals(run(work))
    assert refusal.startswith("librdkafka has threads and sockets of its own")
    make()


FIRST_IMPORT = """
import asyncio, sys
from purgatorio.testing.simulate import simulate

async def work():
    from confluent_kafka import Producer
    Producer({})

async def scenario(world):
    world.service("worker", work)
    await asyncio.sleep(1)

assert "confluent_kafka" not in sys.modules
print(*(failure.error for failure in simulate(scenario, seed=1, faults=(), brokers=1).failures))
"""


@pytest.mark.process
def test_a_service_that_is_the_first_to_import_confluent_kafka_gets_no_librdkafka() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_IMPORT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("librdkafka has threads and sockets of its own")


def test_tls_is_refused_and_not_passed_in_plaintext() -> None:
    async def work() -> None:
        await asyncio.open_connection("broker-1.sim", 9092, ssl=True)

    assert "TLS is not simulated" in refusals(run(work))[0]


def test_functions_for_threads_run_inline_in_a_turn_of_their_own() -> None:
    seen: list[object] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        seen.append(await asyncio.to_thread(threading.get_ident))
        seen.append(await loop.run_in_executor(None, threading.get_ident))
        seen.append(await anyio.to_thread.run_sync(threading.get_ident))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    assert run(work).passed
    assert seen == [threading.get_ident()] * 3


def drawn() -> list[object]:
    """Return what a service may draw from the machine's time and entropy."""
    return [
        time.time(),
        time.time_ns(),
        time.monotonic(),
        time.perf_counter_ns(),
        random.random(),
        random.Random().random(),
        random.SystemRandom().random(),
        secrets.token_hex(4),
        uuid.uuid1(),
        uuid.uuid4(),
        os.urandom(4),
    ]


def test_time_and_randomness_come_from_the_seed_and_are_the_machines_again() -> None:
    seen: list[list[object]] = []

    async def work() -> None:
        seen.append(drawn())

    state = random.getstate()
    assert run(work).passed
    assert run(work).passed
    assert seen[0] == seen[1]
    assert random.getstate() == state
    assert time.time() > 1_760_000_000
    assert all(one != other for one, other in zip(drawn(), drawn(), strict=True))


def test_another_thread_keeps_the_machines_time_and_randomness() -> None:
    times: list[float] = []
    draws: list[list[object]] = []

    for _ in range(2):
        asked, answered = threading.Event(), threading.Event()

        def answer(asked: threading.Event = asked, answered: threading.Event = answered) -> None:
            asked.wait()
            times.append(time.time())
            draws.append([random.Random().random(), os.urandom(8), secrets.token_hex(8)])
            answered.set()

        async def work(asked: threading.Event = asked, answered: threading.Event = answered) -> None:
            asked.set()
            answered.wait()

        thread = threading.Thread(target=answer)
        thread.start()
        assert run(work).passed
        thread.join()
    assert min(times) > 1_760_000_000
    assert all(one != other for one, other in zip(*draws, strict=True))


def test_the_loggers_that_a_service_configures_are_as_before() -> None:
    logger = logging.getLogger("tests.simulated")

    async def work() -> None:
        logger.addFilter(lambda record: True)
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.DEBUG)
        logger.error("kept\nin full")
        logger.error("%d orders", "some")

    outcome = run(work)
    kept, wrong = [entry.text for entry in outcome.journal.of("log")]
    assert kept == "ERROR tests.simulated: kept\nin full"
    assert wrong.startswith("ERROR tests.simulated: %d orders (TypeError")
    assert (logger.filters, logger.handlers, logger.level) == ([], [], logging.NOTSET)


def test_a_loop_that_never_waits_is_ended() -> None:
    async def work() -> None:
        while True:  # noqa: ASYNC110 - the mistake that is looked for
            await asyncio.sleep(0)

    # A second, since the world must be up by then, also where coverage is measured.
    assert "does a loop in worker wait with sleep(0)?" in refusals(run(work, limit_seconds=1.0))[0]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_run_is_limited_by_its_cpu_time_so_that_it_passes_on_a_busy_machine() -> None:
    async def work() -> None:
        select.select([], [], [], 1.0)  # the machine does something else
        for _ in range(2 * TURNS_BETWEEN_LOOKS):
            await asyncio.sleep(0)

    assert refusals(run(work, limit_seconds=1.0)) == []


def test_a_scenario_that_waits_for_what_never_comes_is_ended_and_told_where_it_waits() -> None:
    async def scenario(world: World) -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimulationFailed) as failed:
        simulate(scenario, seeds=1, faults=(), brokers=1, limit_seconds=0.1)()
    told = str(failed.value)
    assert re.search(r"takes more than 0.1 s of CPU time, in which \d+ s of virtual time passed", told)
    assert "The scenario waits at test_outside.py:" in told
    assert "_run_once" not in told


def test_simulations_cannot_be_nested() -> None:
    async def scenario(world: World) -> None:
        simulate(scenario, seed=2)

    outcome: Outcome = simulate(scenario, seed=1, brokers=1)
    assert refusals(outcome) == ["a simulation runs already in this process: simulations cannot be nested"]


def test_an_exception_in_a_task_that_nothing_awaits_fails_the_seed() -> None:
    async def fail() -> None:
        raise LookupError("lost")

    async def work() -> None:
        task = asyncio.create_task(fail())
        del task
        await asyncio.sleep(1)

    (failure,) = run(work).failures
    assert (failure.node, repr(failure.error)) == ("worker", "LookupError('lost')")
