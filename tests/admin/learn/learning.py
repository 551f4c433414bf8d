"""A process of ``purgatorio learn``, as a user starts it, and requests to it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).parent / "purgatorio"
OWNED = ("learn", "--port", "0", "--print-json", "--with-parent", "--log-level", "error")


@contextlib.contextmanager
def learning() -> Iterator[str]:
    """Run it for the span of a block; yield the URL of its admin HTTP."""
    argv = [sys.executable, "-m", "purgatorio", *OWNED]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["admin_url"]
        finally:
            process.stdin.close()
            assert process.wait(20) == 0


def get(url: str) -> Any:
    """Return what is answered as JSON."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)
