"""A cluster in a process whose threads gevent or eventlet has made greenlets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.process

PATCH = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}

USE = dedent(
    """
    import threading, time, urllib.request
    from confluent_kafka import Producer
    from kafka import KafkaProducer
    from purgatorio.testing import cluster

    def blocking(kafka):
        # librdkafka, whose flush lets no greenlet run
        with Producer(kafka.client_config("confluent", "producer")) as producer:
            producer.produce("orders", "tea")
            assert producer.flush(10) == 0

    def green(kafka):
        # a greenlet's client, while another greenlet waits for the cluster
        def send():
            client = KafkaProducer(**kafka.client_config("kafka-python", "producer"))
            client.send("orders", b"cake").get(10)
            client.close()
        kafka.hold_follower(next(each for each in kafka.brokers if each != kafka.leader("orders")))
        sending = threading.Thread(target=send)
        sending.start()
        (parked,) = kafka.until_parked(api="Produce").wait()
        assert parked.client.startswith("kafka-python"), parked
        kafka.release()
        sending.join()

    def use(kafka):
        kafka.topic("orders")
        blocking(kafka)
        green(kafka)
        with urllib.request.urlopen(kafka.admin_url + "/metrics") as answer:
            assert b"kafka_server" in answer.read()
        kafka.kill(kafka.leader("orders"))
        assert [each.value for each in kafka.records("orders")] == [b"tea", b"cake"]
        kafka.clock.advance(5)
        try:
            kafka.until_parked(api="Produce").wait(0.01)
        except TimeoutError as error:
            assert "still waiting after 0.01 s" in str(error)
        else:
            raise AssertionError("nothing is parked")
    """
)


def run(program: str) -> None:
    """Run a program; it prints nothing but "ended"."""
    command = [sys.executable, "-W", "ignore", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (ran.stdout.splitlines()[-1:], ran.returncode) == (["ended"], 0), ran.stdout + ran.stderr


@pytest.mark.parametrize("kind", PATCH)
def test_a_cluster_lives_beside_greenlets(kind: str) -> None:
    run(f"{PATCH[kind]}\n{USE}\nwith cluster() as kafka:\n    use(kafka)\nprint('ended')")


@pytest.mark.ci
@pytest.mark.parametrize("kind", PATCH)
def test_a_cluster_of_processes_lives_beside_greenlets(kind: str) -> None:
    run(f"{PATCH[kind]}\n{USE}\nwith cluster(processes=True) as kafka:\n    use(kafka)\nprint('ended')")


@pytest.mark.ci
@pytest.mark.parametrize("kind", PATCH)
def test_clients_of_a_cluster_beside_greenlets_speak_tls_and_log_in(kind: str) -> None:
    options = "tls=True, sasl='SCRAM-SHA-256', topics={'orders': 1}"
    run(f"{PATCH[kind]}\n{USE}\nwith cluster({options}) as kafka:\n    blocking(kafka); green(kafka)\nprint('ended')")


@pytest.mark.ci
@pytest.mark.parametrize("kind", PATCH)
def test_a_patch_after_the_clusters_start_is_refused_in_a_sentence_and_another_cluster_starts(kind: str) -> None:
    refused = f"cannot create topic 'orders': {kind} patched this process after the cluster's start"
    run(
        f"""
from purgatorio.testing import Kafka, cluster
kafka = Kafka()
{PATCH[kind]}
try:
    kafka.topic("orders")
except RuntimeError as error:
    assert str(error) == {refused!r}, error
with cluster() as kafka:
    kafka.topic("orders")
print("ended")
"""
    )


@pytest.mark.parametrize("kind", PATCH)
def test_the_fixture_serves_a_test_beside_greenlets(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # trio cannot be imported after eventlet's patch
    test = "def test_it(kafka):\n    kafka.topic('orders')\n    blocking(kafka)"
    plugin = f"{PATCH[kind]}\nimport sys, pytest\nfrom pathlib import Path\n"
    path = f"Path({str(tmp_path)!r}, 'test_it.py')"
    program = f"{plugin}{path}.write_text({USE + test!r})\n"
    options = "'-q', '-p', 'no:cacheprovider', '-p', 'pytest_purgatorio'"
    run(f"{program}assert pytest.main([{options}, str({path})]) == 0\nprint('ended')")
