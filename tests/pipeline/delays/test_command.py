"""Usage errors of the command are clear and come at once, without Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from purgatorio.pipeline.delays import command
from purgatorio.pipeline.delays.settings import ReportSettings, source_options, spark_options

RIGHT = ["--bootstrap", "localhost:9092", "--out", "delays"]


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        command.main(argv)
    assert ended.value.code == command.EXIT_USAGE
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--bootstrp", "x"], "there is no option --bootstrp; did you mean --bootstrap?"),
        (["--out", "delays"], "required: --bootstrap"),
        ([*RIGHT, "--window", "7s"], "whole seconds that divide a day evenly, not '7s'"),
        ([*RIGHT, "--window", "1500ms"], "whole seconds that divide a day evenly, not '1500ms'"),
        ([*RIGHT, "--trigger", "soon"], "must be a time up to a day such as 10s or 1m, not 'soon'"),
        ([*RIGHT, "--trigger", "0s"], "must be a time up to a day"),
        ([*RIGHT, "--kafka", "fetch.wait.max.ms"], "must be KEY=VALUE, not 'fetch.wait.max.ms'"),
        ([*RIGHT, "--kafka", "group.id=mine"], "kafka.group.id cannot be set"),
        (["--bootstrap", " ", "--out", "delays"], "kafka.bootstrap.servers is required"),
        (["--bootstrap", "b:1", "--out", "hdfs://n/delays"], "must be a directory that the driver and all workers see"),
        (["--bootstrap", "b:1", "--out", __file__], "is no directory"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_hint(
    capsys: pytest.CaptureFixture[str], argv: list[str], complaint: str
) -> None:
    told = refused(capsys, *argv)
    assert complaint in told
    assert "--help lists the options" in told


@pytest.mark.process
def test_help_comes_without_spark_or_the_client() -> None:
    code = (
        "import sys; from purgatorio.pipeline.delays.command import main\n"
        "try: main(['--help'])\n"
        "finally: print([name for name in ('pyspark', 'confluent_kafka', 'plotly', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "usage: purgatorio-delays" in done.stdout
    assert done.stdout.endswith("[]\n")


@pytest.mark.process
def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "purgatorio.pipeline.delays", "--zzzz"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "purgatorio-delays: there is no option --zzzz")


def test_without_java_the_error_tells_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="install purgatorio[spark]")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert command.main(RIGHT) == command.EXIT_FAILED
    assert "openjdk-17-jre" in capsys.readouterr().err


def test_without_pyspark_the_error_tells_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command.main(RIGHT) == command.EXIT_FAILED
    assert re.search(r"pyspark is not installed: .* -m pip install .*\[spark\]", capsys.readouterr().err)


def settings(**changed: Any) -> ReportSettings:
    return ReportSettings(bootstrap="b:1", out=Path("delays"), **changed)


def test_the_source_gets_the_clients_settings_and_reads_limited_batches_from_the_start() -> None:
    told = source_options(settings(topic="t", kafka={"client.id": "me", "bootstrap.servers": "other:1"}))
    assert int(told.pop("maxOffsetsPerTrigger")) > 0
    assert told == {
        "kafka.client.id": "me",
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
    }


def test_a_local_session_is_small_and_binds_to_localhost() -> None:
    told = spark_options(settings(), submitted=False)
    assert told["spark.master"] == "local[2]"
    assert told["spark.driver.host"] == "127.0.0.1"
    assert told["spark.ui.enabled"] == "false"


def test_a_spark_cluster_gets_no_settings_for_one_machine() -> None:
    told = spark_options(settings(master="spark://there:7077", spark={"spark.ui.enabled": "true"}), submitted=False)
    assert told["spark.master"] == "spark://there:7077"
    assert "spark.driver.host" not in told
    assert "spark.sql.shuffle.partitions" not in told
    assert told["spark.ui.enabled"] == "true"


def test_the_settings_of_spark_submit_are_kept() -> None:
    assert spark_options(settings(), submitted=True) == {}
    assert spark_options(settings(master="local[1]"), submitted=True) == {"spark.master": "local[1]"}
