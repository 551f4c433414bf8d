"""The program in the package's README does what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import purgatorio.broker.purgatory

README = Path(purgatorio.broker.purgatory.__file__).with_name("README.md")


def test_the_program_runs_and_prints_what_is_said() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.splitlines() == ["nothing new", "soup is ready"]
