"""The pytest plugin: what a failed test shows, and what a test may not leave behind."""

from __future__ import annotations

import pytest

from tests.testing.conftest import Run

pytest_plugins = ["pytester"]


def test_a_failure_shows_what_the_cluster_waits_for(run: Run) -> None:
    source = """
        import contextlib, threading

        def produce(kafka):
            with contextlib.suppress(RuntimeError):  # the cluster ends first
                kafka.produce("orders", "late")

        def test_it(kafka):
            kafka.topic("orders", partitions=2)
            kafka.produce("orders", "first")
            leader = kafka.leader("orders")
            others = [each for each in kafka.brokers if each != leader]
            kafka.stop(others[1])
            kafka.hold_follower(others[0])
            threading.Thread(target=produce, args=(kafka,), daemon=True).start()
            kafka.until_parked(api="Produce").wait()
            assert False
    """
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Kafka at the failed call*",
            "brokers: *(held)*",
            "parked operations, the longest waiting first:",
            "  broker ? Produce of purgatorio.testing, * ms left: orders-0: broker ? is at 1 of 2",
            "changes of leaders and ISR:",
            "  *.* s ago orders-0: in sync ? ? ? → ? ?",
        ]
    )


def test_an_error_of_the_tests_own_code_is_called_so_before_what_the_cluster_sees(run: Run) -> None:
    """The first line explained why a consumer gets nothing, though the test had failed by its own parser."""
    result = run("""
        def test_it(kafka): {}["a"]
    """)
    result.stdout.fnmatch_lines(
        [
            "*Kafka at the failed call*",
            "KeyError is no error of the cluster or of a client; what the cluster sees:",
            "brokers: *",
        ]
    )


def test_a_failed_setup_shows_it_too_and_a_passed_test_nothing(run: Run) -> None:
    source = """
        import pytest

        @pytest.fixture
        def consumer(kafka):
            raise RuntimeError("no partitions")

        def test_it(consumer): pass

        def test_session(kafka_session): assert False

        def test_passes(kafka): pass
    """
    result = run(source)
    result.assert_outcomes(errors=1, failed=1, passed=1)
    shown = result.stdout.str()
    assert shown.count("Kafka at the failed setup") == 1
    assert shown.count("Kafka at the failed call") == 1


def test_a_report_has_fifty_lines_at_most(run: Run) -> None:
    source = """
        def test_it(kafka):
            for name in "abcdefgh":
                kafka.topic(name, partitions=20)
            kafka.stop(1)
            assert len(kafka.report().splitlines()) <= 50
            assert "… 1" in kafka.report() and "earlier" in kafka.report()
    """
    run(source).assert_outcomes(passed=1)


LEFT_OPEN = """
    import gc
    from client import connect

    kept = []

    def test_it(kafka):
        kept.append(connect(kafka, "billing"))

    def test_closes(kafka):
        connect(kafka, "billing").close()

    def teardown_module():
        kept[0].close()
"""


def test_a_client_that_a_test_leaves_connected_is_named(run: Run) -> None:
    result = run(LEFT_OPEN)
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*KafkaLeakWarning: test_it left Kafka clients connected: billing. *"])


def test_it_is_an_error_if_the_ini_file_says_so(run: Run) -> None:
    result = run(LEFT_OPEN, ini="kafka_leaks = error")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["test_it left Kafka clients connected: billing. *"])


def test_it_can_be_ignored(run: Run) -> None:
    run(LEFT_OPEN, ini="kafka_leaks = ignore").assert_outcomes(passed=2, warnings=0)


def test_clients_of_the_sessions_fixtures_may_stay_connected(run: Run) -> None:
    source = """
        import pytest
        from client import connect

        class Reconnecting:
            def __init__(self, kafka):
                self.kafka, self.client = kafka, connect(kafka, "of-session")

            def ask(self):
                if not self.client.recv(1_000):
                    self.client.close()
                    self.client = connect(self.kafka, "of-session")

        @pytest.fixture(scope="session")
        def client(kafka_session):
            client = Reconnecting(kafka_session)
            yield client
            client.client.close()

        def test_first(client, kafka): client.ask()
        def test_second(client, kafka): client.ask()
    """
    run(source, ini="kafka_scope = session\nkafka_leaks = error").assert_outcomes(passed=2)


IDLE_RULE = """
    def test_it(kafka):
        kafka.topic("orders")
        kafka.fault(api="Produce", topic="order", error="NOT_LEADER_OR_FOLLOWER")

    def test_removes_it(kafka):
        kafka.fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER").remove()
"""


def test_a_fault_rule_that_matched_nothing_is_told(run: Run) -> None:
    result = run(IDLE_RULE)
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*KafkaFaultWarning: test_it has fault rules that matched no request: *order*"])
    run(IDLE_RULE, ini="kafka_faults = error").assert_outcomes(passed=2, errors=1)
    run(IDLE_RULE, ini="kafka_faults = ignore").assert_outcomes(passed=2, warnings=0)


def test_a_rule_of_one_test_is_gone_in_the_next_one_of_the_session(run: Run) -> None:
    source = """
        def test_first(kafka):
            kafka.topic("orders")
            kafka.fault(api="Metadata", error="LEADER_NOT_AVAILABLE")

        def test_second(kafka):
            assert kafka.faults == []
    """
    run(source, ini="kafka_scope = session\nkafka_faults = ignore").assert_outcomes(passed=2)


FORGOTTEN = """
    import pytest
    from purgatorio.testing import Kafka

    @pytest.fixture(scope="session")
    def wide():
        kafka = Kafka()
        yield kafka
        kafka.close()

    def test_forgets():
        Kafka()  # line 12

    def test_late(request):
        request.getfixturevalue("wide").topic("orders")

    def test_wide(wide):
        wide.produce("orders", "its cluster was not taken for a forgotten one")
"""


def test_a_forgotten_cluster_is_ended_and_told(run: Run) -> None:
    result = run(FORGOTTEN, ini="kafka_leaks = error")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["test_forgets never closed the Kafka cluster that it opened at test_it.py:11"])
    run(FORGOTTEN).assert_outcomes(passed=3, warnings=1)
    run(FORGOTTEN, ini="kafka_leaks = ignore").assert_outcomes(passed=3)


def test_a_hint_of_another_loop_needs_that_failure(run: Run) -> None:
    result = run("def test_it(kafka): assert False")
    result.stdout.no_fnmatch_line("*A client belongs to the event loop*")


def test_a_cluster_that_hangs_does_not_hide_the_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.testing.kafka.REPORT_TIMEOUT_SECONDS", 0.01)
    source = """
        import time

        def test_it(kafka):
            kafka._thread._shared._loop.call_soon_threadsafe(time.sleep, 0.2)
            assert "this" == "that"
    """
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert 'this' == 'that'", "no report: still waiting after 0.01 s: make the report"])


def test_a_refused_call_ends_the_traceback_in_the_test(run: Run) -> None:
    """The frames of the cluster's thread tell its author nothing; --full-trace shows them."""
    source = """
        def test_it(kafka):
            kafka.move_leader("nope", 0, to=2)
    """
    told = run(source, "--tb=short").stdout
    told.fnmatch_lines(["test_it.py:2: in test_it", "E   ValueError: there is no topic 'nope'"])
    told.no_fnmatch_line("*loop_thread.py*")
    run(source, "--full-trace").stdout.fnmatch_lines(["*loop_thread.py:*"])


def test_a_failure_of_the_tests_own_keeps_its_frames(run: Run) -> None:
    source = """
        def helper(kafka):
            raise ValueError(kafka.bootstrap)

        def test_it(kafka):
            helper(kafka)
    """
    run(source, "--tb=short").stdout.fnmatch_lines(["test_it.py:5: in test_it", "test_it.py:2: in helper"])


@pytest.mark.parametrize(
    "toxic",
    ["'latency', latency_ms=500", "'latency', latency_ms=500, stream='upstream'", "'slow_close', delay_ms=500"],
)
def test_a_client_whose_end_a_toxic_delays_is_no_leak(run: Run, toxic: str) -> None:
    """The client has closed its connection; the broker does not hear of it before the toxic lets the end through."""
    source = f"""
        from client import connect

        def test_it(kafka):
            kafka.network({toxic}, client="billing")
            connect(kafka, "billing").close()
    """
    run(source, ini="kafka_leaks = error").assert_outcomes(passed=1)
