"""The table of Kafka's releases is made of what their jars say; tests/compat/test_as_version.py asks the jars."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from purgatorio.broker.metadata.releases import TABLE, releases

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "kafka_releases.py"


def test_a_table_has_a_row_for_each_api_and_feature_and_for_configs_that_changed() -> None:
    spec = importlib.util.spec_from_file_location("kafka_releases", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    told = {
        "3.9": [
            ["api", "10", "0", "6"],
            ["api", "2", "0", "9"],
            ["topic", "segment.bytes", "=16", "14"],
            ["topic", "flush.ms", "=1", "0"],
            ["topic", "gone", "=x", "-"],
        ],
        "4.0": [
            ["feature", "group.version", "0", "1", "1"],
            ["api", "2", "1", "10"],
            ["topic", "segment.bytes", "=16", "1024"],
            ["topic", "flush.ms", "=1", "0"],
            ["broker", "known", "~", "-"],
            ["broker", "unknown", "=1", "-"],
        ],
    }
    assert script.table(told, {"known"}).splitlines()[1:] == [
        "release 3.9 4.0",
        "version 3.9.1 4.0.0",
        "api 2 0-9 1-10",
        "api 10 0-6 -",
        "feature group.version - 0-1=1",
        "topic gone =x -",
        "broker known - ~",
        "topic-lowest segment.bytes 14 1024",
    ]
    assert tuple(script.RELEASES) == tuple(releases())
    assert TABLE.resolve() == script.TABLE
