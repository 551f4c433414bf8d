"""``purgatorio learn`` as it is typed wrongly, or when it cannot listen."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest

from purgatorio.admin.cli import main as cli


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The command sends the process's log lines to the standard error of this test, which ends before the others."""
    root = logging.getLogger()
    handlers, level, of_uvicorn = root.handlers[:], root.level, logging.getLogger("uvicorn").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("uvicorn").setLevel(of_uvicorn)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--set", "brokers=1"], "scenes need 3 brokers in one process"),
        (["--tls"], "the clients of scenes speak no TLS and have no passwords: "),
        (["--set", "listeners=SASL_PLAINTEXT://:0"], "the clients of scenes speak no TLS and have no passwords: "),
    ],
)
def test_a_cluster_on_which_no_scene_can_be_played_is_refused(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["learn", "--port", "0", "--admin-port", "0", *options]) == cli.EXIT_USAGE
    assert capsys.readouterr().err.startswith(f"purgatorio: {says}")


@pytest.mark.slow
def test_ports_that_are_taken_are_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["learn", "--port", "0", "--admin-port", str(port)]) == cli.EXIT_FAILED
    told = capsys.readouterr().err
    assert f"port {port} on 127.0.0.1 is in use; choose another with --admin-port (0: any free port)" in told
