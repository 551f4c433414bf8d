"""The pytest plugin: what it costs runs that have no use for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("unmeasured")
def test_the_plugin_imports_nothing_of_the_package() -> None:
    code = (
        "import sys, pytest, pytest_purgatorio\n"
        "pytest.main(['-p', 'pytest_purgatorio', '-q', '--rootdir=/', '/dev/null'])\n"
        "print([name for name in sys.modules if name.startswith('purgatorio')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.usefixtures("unmeasured")
def test_the_public_names_do_not_import_the_broker() -> None:
    code = (
        "import sys\n"
        "from purgatorio.testing import Kafka, Parked, Record, cluster\n"
        "heavy = ('purgatorio.broker.', 'purgatorio.protocol', 'pydantic')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['purgatorio.broker.time', 'purgatorio.broker.time.event_loop']\n"


def test_the_broker_is_imported_without_rewritten_assertions(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest rewrites all modules of a distribution that has a plugin, which made this import a third longer."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("import pytest\npytest.register_assert_rewrite('purgatorio')")
    pytester.makepyfile(
        """
        import sys

        def test_it(kafka):
            loader = sys.modules["purgatorio.broker.cluster"].__loader__
            assert type(loader).__name__ == "SourceFileLoader"
            assert type(sys.meta_path[0]).__name__ == "AssertionRewritingHook"
        """
    )
    pytester.runpytest_subprocess("-p", "pytest_purgatorio").assert_outcomes(passed=1)
