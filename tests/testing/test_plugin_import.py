"""The pytest plugin: what it costs runs that have no use for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


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
    assert done.stdout == "['purgatorio.broker.event_loop']\n"
