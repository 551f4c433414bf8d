"""The thread in which clusters run, as each cluster uses it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from purgatorio.testing import Kafka, cluster
from purgatorio.testing.loop_thread import LoopThread


def test_calls_after_the_end_are_refused_by_name() -> None:
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
    for call, doing in (
        (lambda: kafka.start(1), "start broker 1"),
        (lambda: kafka.produce("orders", "late"), "produce to orders-0"),
        (lambda: kafka.until_parked(api="Fetch"), "a parked Fetch"),
        (lambda: kafka.clock.now(), "read the clock"),
    ):
        with pytest.raises(RuntimeError, match=f"the cluster is closed; cannot {doing}"):
            call()


def test_what_waits_in_another_thread_ends_with_the_cluster() -> None:
    failures: list[Exception] = []

    def produce(kafka: Kafka) -> None:
        try:
            kafka.produce("orders", "late")
        except RuntimeError as error:
            failures.append(error)

    with cluster() as kafka:
        kafka.topic("orders")
        for broker in kafka.brokers:
            kafka.hold_follower(broker)
        producing = threading.Thread(target=produce, args=(kafka,))
        producing.start()
        kafka.until_parked(api="Produce").wait()
        waiting = kafka.until_parked(api="Rebalance")
    producing.join()
    assert [str(error) for error in failures] == ["the cluster was closed meanwhile: produce to orders-0"]
    with pytest.raises(RuntimeError, match="the cluster was closed meanwhile: a parked Rebalance"):
        waiting.wait()


async def test_what_is_awaited_ends_with_the_cluster_and_with_its_task() -> None:
    kafka = Kafka()
    waiting = asyncio.ensure_future(_awaited(kafka))
    await asyncio.sleep(0)
    await asyncio.to_thread(kafka.close)
    with pytest.raises(RuntimeError, match="the cluster was closed meanwhile: a parked Rebalance"):
        await waiting
    with cluster(brokers=1) as kafka:
        waiting = asyncio.ensure_future(_awaited(kafka))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def _awaited(kafka: Kafka) -> object:
    return await kafka.until_parked(api="Rebalance")


async def test_what_does_not_come_is_named_to_those_who_await() -> None:
    with cluster(brokers=1) as kafka, pytest.raises(TimeoutError, match=r"after 0\.01 s: a parked Rebalance"):
        await kafka.until_parked(api="Rebalance", timeout_seconds=0.01)


def test_a_call_from_within_the_thread_is_refused() -> None:
    """It would wait for itself."""
    thread = LoopThread()

    def nested() -> None:
        thread.call(lambda: None, "wait for itself")

    with pytest.raises(RuntimeError, match="from within its thread: wait for itself"):
        thread.call(nested, "call")


def test_a_call_that_takes_too_long_is_named_and_cancelled() -> None:
    thread = LoopThread()
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError, match=r"still waiting after 0\.01 s: come to an end"):
        thread.run(endless(), "come to an end", 0.01)
    assert cancelled.wait(5)


def test_a_timeout_of_what_was_called_is_its_own() -> None:
    def late() -> None:
        raise TimeoutError("the broker's own")

    with pytest.raises(TimeoutError, match="the broker's own"):
        LoopThread().call(late, "call")
