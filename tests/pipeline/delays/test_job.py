"""The whole job against a cluster: each record of the topic is in the tables once, also after kills and stops."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.conftest import needs_spark, new_topic
from tests.pipeline.delays import samples
from tests.pipeline.delays.test_batches import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from purgatorio.pipeline.delays.settings import ReportSettings
    from tests.error_log import ErrorLog

pytestmark = needs_spark

Send = Callable[[Sequence[dict[str, Any] | str]], None]


@pytest.fixture
def topic(servers: str) -> str:
    """A topic of two partitions that no other test uses."""
    return new_topic(servers, 2)


@pytest.fixture
def send(servers: str, topic: str) -> Send:
    """Writes records to the topic."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "log_level": "0"})

    def all_of(values: Sequence[dict[str, Any] | str]) -> None:
        for nth, value in enumerate(values):
            producer.produce(topic, json.dumps(value) if isinstance(value, dict) else value, partition=nth % 2)
        assert producer.flush(10) == 0

    return all_of


@pytest.fixture
def settings(servers: str, topic: str, tmp_path: Path) -> ReportSettings:
    from purgatorio.pipeline.delays.settings import ReportSettings

    return ReportSettings(bootstrap=servers, out=tmp_path, topic=topic, trigger_ms=100)


def stream(spark: SparkSession, settings: ReportSettings, say: Callable[[str], None]) -> str | None:
    """Run the job in the tests' Spark session."""
    from purgatorio.pipeline.delays import job
    from purgatorio.pipeline.delays.tables import Tables

    tables = Tables(settings.out)
    with tables.opened({"topic": settings.topic}):
        return job.stream(spark, settings, tables, say)


@pytest.mark.heavy
def test_a_run_that_failed_and_one_that_was_stopped_leave_the_tables_of_a_single_run(
    spark: SparkSession, settings: ReportSettings, send: Send, monkeypatch: pytest.MonkeyPatch, error_log: ErrorLog
) -> None:
    """The first run fails between bronze and gold; the second repairs that, and is stopped; the third completes."""
    from dataclasses import replace

    from purgatorio.pipeline.delays.batches import Batches

    events = list(samples.busy(21, 900, 60_000))
    send([*events[:300], "bad"])

    def fails(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Batches, "refresh", lambda self, spark, windows: fails() if windows else None)
        failure = stream(spark, settings, lambda line: None)
    assert failure is not None
    assert "OSError: no space left on device" in failure
    assert "goes on from its checkpoint" in failure
    error_log.expect("no space left on device")  # py4j logs what the function of a batch raises

    lines: list[str] = []

    def stop_after_the_second_batch(line: str) -> None:
        lines.append(line)
        if line.startswith("batch 0"):
            send(events[300:600])
        if line.startswith("batch 1"):
            os.kill(os.getpid(), signal.SIGTERM)

    assert stream(spark, settings, stop_after_the_second_batch) is None
    assert lines[1].startswith("batch 0 · 300 events · 1 bad · ")
    assert lines[-1] == f"Tables: {settings.out}\nReport: {settings.out / 'report.html'}"
    assert "600" in (settings.out / "report.html").read_text(encoding="utf-8")

    send(events[600:])
    assert stream(spark, replace(settings, once=True), lines.append) is None
    found = Run(spark, settings.out)
    found.assert_gold_is_of(events)
    assert found.ids() == list(range(1, 901))
    assert [value for _, value, _ in found.bad()] == [b"bad"]


@pytest.mark.heavy
def test_a_run_on_an_empty_topic_is_continued_when_there_are_records(
    spark: SparkSession, settings: ReportSettings, send: Send
) -> None:
    from dataclasses import replace

    once = replace(settings, once=True)
    assert stream(spark, once, lambda line: None) is None
    assert any((settings.out / "checkpoint" / "commits").glob("[0-9]*"))
    events = list(samples.busy(22, 50))
    send(events)
    assert stream(spark, once, lambda line: None) is None
    Run(spark, settings.out).assert_gold_is_of(events)


def test_an_unknown_topic_and_an_unreachable_broker_are_reported_before_spark_starts(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from purgatorio.pipeline.delays import job
    from purgatorio.pipeline.delays.settings import ReportSettings

    def told(**changed: Any) -> str:
        return job.run(ReportSettings(out=tmp_path / "out", **({"bootstrap": servers} | changed)), print) or ""

    assert "there is no topic '__delayed_operations'" in told()
    assert "purgatorio cluster --record-delays" in told()
    assert "--record-delays" not in told(topic="other")
    assert "kafka.no.such.setting is no setting of the client" in told(kafka={"no.such.setting": "1"})
    monkeypatch.setattr("purgatorio.pipeline.client.TIMEOUT_SECONDS", 0.2)
    assert "no broker at 127.0.0.1:1 answers" in told(bootstrap="127.0.0.1:1")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):\n"
            '  File "client.py", line 99, in _topics\ncimpl.KafkaException: KafkaError{...}\n\n'
            "purgatorio.pipeline.client.BrokerUnreachable: no broker at b:1 answers within 20 s\n SQLSTATE: 38000\n",
            "no broker at b:1 answers within 20 s",
        ),
        (
            "Traceback:\n  x\nOSError: [Errno 28] No space left on device\n",
            "OSError: [Errno 28] No space left on device",
        ),
        ("[SOME_ERROR] what Spark says\nin two lines", "[SOME_ERROR] what Spark says\nin two lines"),
    ],
)
def test_the_readable_part_of_a_spark_error_is_reported(message: str, cause: str) -> None:
    from purgatorio.pipeline.delays.job import cause_of

    assert cause_of(message) == cause
