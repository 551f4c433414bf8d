"""The projects in examples/: each has code with a bug and without, and a test that tells them apart."""

from __future__ import annotations

from typing import Final

PROJECTS: Final = {
    "commit_late": 1,
    "dead_letters": 1,
    "delivery_reports": 2,
    "exactly_once": 1,
    "faststream_simulated": 1,
    "in_flight": 1,
    "lock_ran_out": 1,
    "outbox": 1,
    "put_aside": 1,
    "quix": 1,
    "slow_tier": 1,
    "spark_job": 1,
}
"""How many tests of each pass. One more, that of the code with the bug, is expected to fail."""

LIGHT: Final = [name for name in PROJECTS if name not in ("faststream_simulated", "quix", "spark_job")]
"""Those that the tests' own environment runs in seconds: it has no FastStream, Quix wants an older confluent-kafka, and
Spark half a minute."""
