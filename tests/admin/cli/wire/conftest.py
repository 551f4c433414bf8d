"""Commands that speak Kafka's protocol, against a cluster in this process: brokers are named, or found by its page."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster


class Ran(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """The cluster that the tests of a file share."""
    with cluster(brokers=1, topics={"orders": 2}, auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture
def run(kafka: Kafka, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command against the brokers of the cluster; `given` is its standard input."""

    def running(*argv: str, given: bytes = b"", found: bool = False) -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        where = ["--admin", kafka.admin_url] if found else ["--bootstrap", kafka.bootstrap]
        try:
            code = cli.main([*argv, *where])
        except SystemExit as left:
            code = int(left.code or 0)
        printed = capfdbinary.readouterr()
        return Ran(code, printed.out.decode(errors="replace"), printed.err.decode())

    return running
