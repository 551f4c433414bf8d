"""``purgatorio simulate --watch`` as a user has it: a process, its page in a browser, and Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from purgatorio.admin.cli import main as cli
from tests.admin.web.served_page import BROWSER
from tests.compiled import COMPILED

pytestmark = [pytest.mark.simulation, pytest.mark.process, pytest.mark.ci, pytest.mark.timeout(240)]

PROGRAM = """
import signal, sys
from purgatorio.admin.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background ignore it
sys.exit(main(sys.argv[1:]))
"""
PATIENCE_MS = 60_000
FAILS = "not-converged cluster: 20 s after the faults had healed: orders-0 has in-sync replicas () of (3, 2, 1)"


@pytest.fixture
def url() -> Iterator[str]:
    """The page over a seed that fails, since a rule is switched off."""
    argv = ["simulate", "--seed", "1", "--without", "patient-restart", "--watch", "--admin-port", "0"]
    command = [sys.executable, "-c", PROGRAM, *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"The page plays it: (\S+)", line) for line in process.stdout)))
        yield found[1]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert process.returncode == 1


@pytest.mark.skipif(BROWSER is None, reason="this test needs chromium")
@pytest.mark.skipif(COMPILED, reason="a compiled function cannot be switched off")
def test_it_opens_at_the_failure_plays_and_steps_back(url: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="this test needs playwright")
    failures: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(url)
        page.locator(".player-fails p.reached", has_text=FAILS).wait_for()
        place, cluster = page.locator(".player-place"), page.locator("#cluster")
        assert place.inner_text().startswith("40.692 s of ")
        assert page.locator(".player-lines li").last.inner_text().endswith("reason=orders-0 has no leader")
        assert page.locator("#status").inner_text() == "a recording"
        assert page.locator(".matrix-row").first.get_attribute("class") is not None
        before = place.inner_text()
        page.get_by_role("button", name="One frame back").click()
        page.wait_for_function("() => document.querySelectorAll('.player-fails p.reached').length === 0")
        assert place.inner_text() != before
        page.wait_for_function("() => document.getElementById('cluster').textContent.endsWith('seed 1, view 2')")
        page.get_by_role("button", name="To the start").click()
        page.wait_for_function("() => document.querySelector('.player-place').textContent.startsWith('0.0')")
        page.get_by_label("Speed").select_option("16")
        page.get_by_role("button", name="Play or pause").click()
        page.locator(".player-fails p.reached", has_text=FAILS).wait_for()
        assert "view 3" in cluster.inner_text()
        browser.close()
    assert failures == []


def test_a_port_that_is_taken_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        watch = ["--watch", "--admin-port", str(port)]
        assert cli.main(["simulate", "--seed", "2", "--seconds", "1", *watch]) == cli.EXIT_USAGE
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another" in capsys.readouterr().err


def test_only_one_seed_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--seeds", "2", "--watch"]) == cli.EXIT_USAGE
    assert "--watch is for one seed: leave out --seeds" in capsys.readouterr().err
