"""The pytest plugin: which cluster a test gets, by ini file and by marker."""

from __future__ import annotations

import pytest

from tests.testing.conftest import Run

pytest_plugins = ["pytester"]

TWO_TESTS = """
    seen = []

    def test_first(kafka):
        kafka.topic("orders")
        kafka.hold_follower(2)
        kafka.kill(3)
        seen.append(kafka.bootstrap)

    def test_second(kafka):
        assert kafka.topic("orders") and kafka.brokers == [1, 2, 3]
        seen.append(kafka.bootstrap)
        kafka.produce("orders", "all followers have it")
        assert (len(set(seen)) == 1) is {shared}
"""


def test_each_test_has_a_fresh_cluster(run: Run) -> None:
    run(TWO_TESTS.format(shared=False)).assert_outcomes(passed=2)


def test_tests_of_a_session_share_a_cluster_that_is_reset(run: Run) -> None:
    run(TWO_TESTS.format(shared=True), ini="kafka_scope = session").assert_outcomes(passed=2)


def test_a_marker_chooses_the_scope(run: Run) -> None:
    source = "import pytest\npytestmark = pytest.mark.kafka(scope='session')\n"
    run(source + "".join(line[4:] + "\n" for line in TWO_TESTS.format(shared=True).split("\n"))).assert_outcomes(
        passed=2
    )


def test_a_test_with_options_of_its_own_has_a_cluster_of_its_own(run: Run) -> None:
    source = """
        import pytest

        @pytest.mark.kafka(brokers=1)
        def test_own(kafka, kafka_session):
            assert kafka.brokers == [1]
            assert kafka.bootstrap != kafka_session.bootstrap

        @pytest.mark.kafka(scope="function")
        def test_fresh(kafka, kafka_session):
            assert kafka.bootstrap != kafka_session.bootstrap

        @pytest.mark.kafka(brokers=3)
        def test_the_same(kafka, kafka_session):
            assert kafka.bootstrap == kafka_session.bootstrap
    """
    run(source, ini="kafka_scope = session").assert_outcomes(passed=3)


def test_the_nearest_marker_wins_over_the_ini_file_however_a_name_is_spelt(run: Run) -> None:
    source = """
        import pytest
        pytestmark = pytest.mark.kafka(brokers=2, topics={"orders": 2})

        def settings(kafka):
            return kafka._cluster.brokers[0].config

        def test_module(kafka):
            config = settings(kafka)
            assert (config.min_insync_replicas, config.message_max_bytes, config.rack) == (2, 2000, "a")
            assert kafka.brokers == [1, 2] and kafka.leader("orders", 1)

        @pytest.mark.kafka(brokers=1)
        class TestClass:
            @pytest.mark.kafka(min_insync_replicas=1, **{"message-max-bytes": 3000})
            def test_own(self, kafka):
                config = settings(kafka)
                assert (config.min_insync_replicas, config.message_max_bytes) == (1, 3000)
                assert kafka.brokers == [1] and kafka.leader("orders", 1)
    """
    ini = (
        "kafka_brokers = 5\nkafka_racks = a b\nkafka_settings =\n  min.insync.replicas = 2\n  message.max.bytes=2000\n"
    )
    run(source, "--strict-markers", "--strict-config", ini=ini).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ("broker=1", "broker is not a setting; did you mean brokers?"),
        ("min_insync_replica=1", "min_insync_replica is not a setting; did you mean min_insync_replicas?"),
        ("min_insync_replicas='two'", "min_insync_replicas must be a whole number, not 'two'"),
        ("brokers=0", "brokers must be at least 1, not '0'"),
        ("3", "takes names only, for example brokers=3"),
        ("scope='sesion'", "must be function or session, not 'sesion'; did you mean session?"),
        ("topics={'no name': 1}", "topic 'no name' was not created"),
    ],
)
def test_a_wrong_marker_is_an_error_in_one_sentence(run: Run, marker: str, told: str) -> None:
    result = run(f"import pytest\n@pytest.mark.kafka({marker})\ndef test_it(kafka): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"kafka: *{told}*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert "During handling" not in result.stdout.str()


@pytest.mark.parametrize(
    ("ini", "told"),
    [
        ("kafka_scope = sesion", "kafka_scope must be function or session, not 'sesion'; did you mean session?"),
        ("kafka_leaks = errors", "kafka_leaks must be warn or error or ignore, not 'errors'; did you mean error?"),
    ],
)
def test_a_wrong_choice_in_the_ini_file_ends_the_run(run: Run, ini: str, told: str) -> None:
    result = run("def test_it(): pass", ini=ini)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in result.stderr.str()


@pytest.mark.parametrize(
    ("ini", "told"),
    [
        ("kafka_brokers = three", "kafka_brokers must be a whole number, not 'three'"),
        ("kafka_settings = min.insync.replicas", "'min.insync.replicas' must look like name=value"),
        ("kafka_settings = min.insync.replica=1", "did you mean min.insync.replicas?"),
    ],
)
def test_a_wrong_default_in_the_ini_file_fails_the_tests_that_use_it(run: Run, ini: str, told: str) -> None:
    result = run("def test_it(kafka): pass\ndef test_session(kafka_session): pass\ndef test_other(): pass", ini=ini)
    result.assert_outcomes(errors=2, passed=1)
    assert told in result.stdout.str()


def test_a_cluster_that_does_not_start_says_why(run: Run) -> None:
    source = """
        import socket, pytest
        taken = socket.create_server(("127.0.0.1", 0))
        @pytest.mark.kafka(port=taken.getsockname()[1])
        def test_it(kafka): pass
        def teardown_module(): taken.close()
    """
    result = run(source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["kafka: the Kafka cluster did not start: *ddress already in use*"])


def test_a_fixture_of_the_session_shares_the_cluster_and_the_examples_of_hypothesis_reset_it(run: Run) -> None:
    source = """
        import pytest
        from hypothesis import given, settings, strategies

        @pytest.fixture(scope="session")
        def addresses(kafka_session):
            return kafka_session.bootstrap

        @given(strategies.lists(strategies.binary(), max_size=3))
        @settings(max_examples=20, deadline=None, database=None)
        def test_it(kafka_session, addresses, values):
            kafka_session.reset()
            assert kafka_session.bootstrap == addresses
            kafka_session.topic("orders")
            kafka_session.produce("orders", *values, b"last")
            assert [record.value for record in kafka_session.records("orders")] == [*values, b"last"]
    """
    run(source).assert_outcomes(passed=1)


RULES = """
    import pytest

    @pytest.mark.kafka(faults=[{"api": "Fetch", "topic": "orders", "hold": True}])
    def test_own(kafka):
        assert [str(each) for each in kafka.faults] == ["api=Fetch topic=orders hold=true"]

    def test_of_all(kafka):
        assert [str(each) for each in kafka.faults] == ["api=Produce topic=orders observe=true"]
"""


@pytest.mark.parametrize("scope", ["function", "session"])
def test_fault_rules_are_there_from_the_start_and_only_a_tests_own_must_match(
    run: Run, pytester: pytest.Pytester, scope: str
) -> None:
    pytester.makefile(".toml", rules='[[fault]]\napi = "Produce"\ntopic = "orders"\nobserve = true\n')
    result = run(RULES, ini=f"kafka_scope = {scope}\nkafka_fault_rules = rules.toml")
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*KafkaFaultWarning: test_own has fault rules that matched no request: api=Fetch*"])


def test_a_marker_with_a_wrong_fault_rule_fails_the_test_with_a_sentence(run: Run) -> None:
    result = run("import pytest\n@pytest.mark.kafka(faults=[{'api': 'Fetsch'}])\ndef test_it(kafka): pass")
    result.stdout.fnmatch_lines(["*kafka: faults: rule 1: there is no API 'Fetsch'; did you mean Fetch?*"])
    result.assert_outcomes(errors=1)
