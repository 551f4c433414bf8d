"""What the workers in Python have in common: they read commands and answer them; `harness.py` lists these."""

from __future__ import annotations

import inspect
import sys
import threading

stopping = threading.Event()
"""Set when the harness wants a `copy` to end: standard input has ended."""


def say(*words: object) -> None:
    """Print a line in one write."""
    sys.stdout.write(" ".join(" ".join(map(str, words)).split()) + "\n")
    sys.stdout.flush()


class Commands:
    """Runs the methods that are named on standard input, with the line's further words, until it ends."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def fenced(self, error: Exception) -> bool:
        """Whether the client says by this error that another producer has taken its transactional id."""
        raise NotImplementedError

    def run(self) -> None:
        """Answer each command with a line."""
        for line in sys.stdin:
            name, *words = line.split()
            if name == "copy":
                threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
            try:
                result = self.do(name, words)
            except Exception as error:
                say("fenced" if self.fenced(error) else f"error {error!r}")
            else:
                say("values", ",".join(result)) if result is not None else say("ok")

    def do(self, name: str, words: list[str]) -> list[str] | None:
        """Run one command."""
        result: list[str] | None = getattr(self, name)(*words)
        assert not inspect.isawaitable(result)
        return result
