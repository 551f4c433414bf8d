"""Commands against a running cluster of three brokers, which the tests of a file share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster


@pytest.fixture(scope="module")
def controlled() -> Iterator[Kafka]:
    """The cluster; leaders stay where a test puts them."""
    with cluster(topics={"orders": 2}, auto_leader_rebalance_enable=False) as running:
        yield running


@pytest.fixture
def command(controlled: Kafka, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command, given as one text; returns what it printed, which is an error for an exit code other than 0."""

    def run(line: str) -> str:
        code = cli.main([*line.split(), "--admin", controlled.admin_url])
        printed = capsys.readouterr()
        assert bool(code) is bool(printed.err)
        return (printed.err or printed.out).rstrip("\n")

    return run
