"""The pytest plugin: tests of every kind use the same fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.testing.conftest import Run

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ROOT = Path(__file__).resolve().parents[2]

pytest_plugins = ["pytester"]

ASYNC_BODY = """
        kafka.topic("orders")
        followers = [each for each in kafka.brokers if each != kafka.leader("orders")]
        kafka.hold_follower(followers[0])
        producing = threading.Thread(target=kafka.produce, args=("orders", "late"))
        producing.start()
        (parked,) = await kafka.until_parked(api="Produce")
        assert "at 0 of 1" in parked.missing
        kafka.release()
        producing.join()
"""


def test_pytest_asyncio_in_strict_and_auto_mode(run: Run) -> None:
    marked = "@pytest.mark.asyncio\n    async def test_it(kafka):" + ASYNC_BODY
    source = "    import pytest, threading\n    " + marked
    run(source, *ASYNCIO, "-o", "asyncio_mode=strict").assert_outcomes(passed=1)
    source = source.replace("@pytest.mark.asyncio\n", "\n")
    run(source, *ASYNCIO, "-o", "asyncio_mode=auto").assert_outcomes(passed=1)


def test_an_async_fixture_makes_a_client_of_the_tests_own_loop(run: Run) -> None:
    source = """
        import pytest_asyncio
        from aiokafka import AIOKafkaProducer

        @pytest_asyncio.fixture
        async def producer(kafka):
            async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
                yield producer

        async def test_it(kafka, producer):
            await producer.send_and_wait("orders", b"paid")
            assert [record.value for record in kafka.records("orders")] == [b"paid"]
    """
    ini = "kafka_leaks = error"  # the fixture closes its client before the cluster looks
    run(source, *ASYNCIO, "-o", "asyncio_mode=auto", ini=ini).assert_outcomes(passed=1)


def test_a_client_of_another_loop_is_explained(run: Run) -> None:
    source = """
        import pytest, pytest_asyncio
        from aiokafka import AIOKafkaProducer

        @pytest_asyncio.fixture(scope="session", loop_scope="session")
        async def producer(kafka_session):
            async with AIOKafkaProducer(bootstrap_servers=kafka_session.bootstrap) as producer:
                yield producer

        @pytest.mark.asyncio(loop_scope="function")
        async def test_it(kafka_session, producer):
            await producer.send_and_wait("orders", b"paid")
    """
    result = run(source, *ASYNCIO, "-o", "asyncio_mode=strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*attached to a different loop*", "*A client belongs to the event loop that made it.*"]
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio(run: Run, backend: str) -> None:
    pytest.importorskip(backend)
    source = f"""
    import pytest, threading

    @pytest.fixture(scope="module")
    def anyio_backend():
        return "{backend}"

    @pytest.mark.anyio
    async def test_it(kafka):{ASYNC_BODY}
    """
    run(source, "-p", "anyio").assert_outcomes(passed=1)


UNITTEST = """
import threading
import unittest

from purgatorio.testing import cluster


class Plain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = cls.enterClassContext(cluster(brokers=1))

    def setUp(self):
        self.kafka.reset()

    def test_first(self):
        self.kafka.topic("orders")

    def test_second(self):
        self.kafka.topic("orders")


class Async(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.kafka = self.enterContext(cluster())

    async def test_it(self):
        self.kafka.topic("orders")
        self.kafka.hold_follower(next(each for each in self.kafka.brokers if each != self.kafka.leader("orders")))
        producing = threading.Thread(target=self.kafka.produce, args=("orders", "late"))
        producing.start()
        self.assertEqual(len(await self.kafka.until_parked(api="Produce")), 1)
        self.kafka.release()
        producing.join()
"""


def test_unittest_with_the_fixture(run: Run) -> None:
    source = """
        import unittest, pytest

        class Plain(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _kafka(self, kafka):
                self.kafka = kafka

            def test_it(self):
                self.assertEqual(self.kafka.brokers, [1, 2, 3])
    """
    run(source).assert_outcomes(passed=1)


def test_unittest_with_a_context_in_pytest(run: Run) -> None:
    result = run(UNITTEST)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*never closed*")


@pytest.mark.process
def test_unittest_without_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_it=UNITTEST)
    result = pytester.run(sys.executable, "-W", "error", "-m", "unittest", "test_it")
    assert result.ret == 0, result.stderr.str()
    assert "Ran 3 tests" in result.stderr.str()


@pytest.mark.process
def test_xdist_gives_each_worker_its_own_session_and_carries_reports(run: Run) -> None:
    source = """
        import pytest

        @pytest.mark.parametrize("nth", range(8))
        def test_it(kafka, nth):
            kafka.topic("orders")
            assert kafka.produce("orders", "first") == 0

        def test_fails(kafka):
            kafka.kill(3)
            assert False
    """
    result = run(source, "-p", "xdist", "-n", "4", ini="kafka_scope = session")
    result.assert_outcomes(passed=8, failed=1)
    result.stdout.fnmatch_lines(["*Kafka at the failed call*", "brokers: *3 (does not run)"])
