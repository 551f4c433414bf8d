"""What a failed test shows was so at its failure, whatever held its clients, and whichever runner ran it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.conftest import Run

pytest_plugins = ["pytester"]

CLOSING = """
    import contextlib, threading

    def produce(kafka):
        with contextlib.suppress(TimeoutError):
            kafka.produce("orders", "tea")

    @contextlib.contextmanager
    def Producer(kafka):
        '''A producer whose end waits until its record has failed.'''
        kafka.topic("orders")
        kafka.move_leader("orders", to=1)
        kafka.hold_follower(2)
        producing = threading.Thread(target=produce, args=(kafka,))
        producing.start()
        (waiting,) = kafka.until_parked(api="Produce").wait()
        try:
            yield
        finally:
            kafka.expire(waiting)
            producing.join()
"""
WAITS = "*broker 1 Produce of purgatorio.testing, * ms left: orders-0: broker 2 is at 0 of 1"
"""What waited at the failure, and does not wait any more at the end of the test."""


def test_a_block_of_the_test_has_its_client_open_in_the_report(run: Run) -> None:
    result = run(
        CLOSING
        + """
    def test_it(kafka):
        with Producer(kafka):
            assert False
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Kafka at the failed call*", "parked operations, the longest*", WAITS])


def test_a_long_end_of_a_client_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.testing.closing.LONG_SECONDS", 0.0)
    result = run(
        CLOSING
        + """
    def test_it(kafka):
        with Producer(kafka):
            assert False
    """
    )
    result.stdout.fnmatch_lines([WAITS, "the test failed at * s; leaving `with Producer` took * s: its end waits *"])


def test_a_method_and_its_fixtures_client_have_it_too(run: Run) -> None:
    result = run(
        CLOSING
        + """
    import pytest

    @pytest.fixture
    def producer(kafka):
        with Producer(kafka):
            yield

    class TestOrders:
        def test_method(self, kafka):
            with Producer(kafka):
                assert False

        def test_fixture(self, kafka, producer):
            assert False
    """
    )
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count(" ms left: orders-0: broker 2 is at 0 of 1") == 2


def test_each_failure_has_its_own_report(run: Run) -> None:
    result = run(
        """
    def test_first(kafka):
        kafka.hold_follower(1)
        assert False

    def test_second(kafka):
        assert False
    """,
        ini="kafka_scope = session",
    )
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("(held)") == 1


def test_expected_exceptions_cost_few_reports(run: Run) -> None:
    result = run(
        """
    import pytest

    @pytest.fixture
    def made(kafka, monkeypatch):
        made = []
        report = type(kafka).report
        monkeypatch.setattr(type(kafka), "report", lambda kafka: made.append(1) or report(kafka))
        return made

    def test_it(kafka, made):
        for _ in range(50):
            with pytest.raises(ValueError):
                kafka.move_leader("nope", 0, to=2)
        assert 1 <= len(made) <= 4
    """
    )
    result.assert_outcomes(passed=1)


def test_a_client_in_a_thread_is_in_the_report_and_its_own_failure_is_not_the_tests(run: Run) -> None:
    result = run(
        CLOSING
        + """
    def test_it(kafka):
        def serve():
            with contextlib.suppress(OSError):
                raise OSError("of the thread")

        with Producer(kafka):
            serving = threading.Thread(target=serve)
            serving.start()
            serving.join()
            kafka.topic("bills")
            assert False
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Kafka at the failed call*", WAITS, "topics:", "  bills-0 is empty"])


ELSEWHERE = """
    import subprocess, sys
    import pytest

    CODE = '''
    import socket, sys
    from purgatorio.protocol.api import encode_request
    from purgatorio.protocol.api_key import ApiKey
    from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    one = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[one])])
    host, _, port = sys.argv[1].rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"".join(encode_request(ApiKey.FETCH, 12, 1, "elsewhere", fetch)))
        sys.stdin.read()
    '''

    @pytest.mark.kafka(brokers=1)
    def test_it(kafka):
        kafka.topic("orders")
        with subprocess.Popen([sys.executable, "-c", CODE, kafka.bootstrap], stdin=subprocess.PIPE) as service:
            try:
                kafka.until_parked(client="elsewhere").wait()
                assert kafka.records("orders")
            finally:
                service.stdin.close()
"""


@pytest.mark.process
def test_a_client_of_another_process_that_ends_with_the_test_is_in_the_report(run: Run) -> None:
    result = run(ELSEWHERE)
    result.assert_outcomes(failed=1)
    waits = "  broker 1 Fetch of elsewhere, * ms left: consumer has 0 of 1 bytes: orders-0 from 0"
    result.stdout.fnmatch_lines(["*Kafka at the failed call*", "connected clients: elsewhere", "parked *", waits])


def test_nothing_keeps_a_cluster_after_its_test(run: Run) -> None:
    """Pytest keeps all its tests; of a failed one it keeps the exception until the next test, too."""
    result = run(
        """
    import gc, weakref
    import pytest

    clusters = []

    @pytest.mark.kafka(brokers=1)
    def test_first(kafka):
        clusters.append(weakref.ref(kafka))
        with pytest.raises(ValueError):
            raise ValueError

    def test_second():
        gc.collect()
        assert [each() for each in clusters] == [None]
    """
    )
    result.assert_outcomes(passed=2)


UNITTEST = f"""
import unittest

from purgatorio.testing import cluster
{CLOSING.replace(chr(10) + "    ", chr(10))}

class InSetUp(unittest.TestCase):
    def setUp(self):
        self.kafka = self.enterContext(cluster())

    def test_it(self):
        with Producer(self.kafka):
            self.fail("sync")


class InSetUpClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = cls.enterClassContext(cluster())

    def test_it(self):
        with self.assertRaises(KeyError):
            raise KeyError("expected")
        with Producer(self.kafka):
            self.fail("class")


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.kafka = self.enterContext(cluster())

    async def test_it(self):
        with Producer(self.kafka):
            self.fail("async")


unittest.main()
"""


@pytest.mark.process
def test_unittest_has_the_report_as_a_note(tmp_path: Path) -> None:
    file = tmp_path / "test_orders.py"
    file.write_text(UNITTEST, encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert "FAILED (failures=3)" in done.stderr
    assert done.stderr.count(" ms left: orders-0: broker 2 is at 0 of 1") == 3, done.stderr


def test_a_test_case_has_the_report_as_a_note_under_pytest_too(run: Run) -> None:
    result = run(UNITTEST.replace("unittest.main()", ""))
    result.assert_outcomes(failed=3)
    shown, _, _ = result.stdout.str().partition("short test summary")  # which in CI repeats the notes
    assert shown.count(" ms left: orders-0: broker 2 is at 0 of 1") == 3
