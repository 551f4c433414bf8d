"""Fixtures shared by the tests of several parts of the broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from tests.certificates import Certificates, make_certificates


class Turns:
    """Stands in for the event loop: keeps what is called soon, until the test lets a turn pass."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def turn(self) -> None:
        """Run what waits now, and not what that asks for in turn."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def run(self, most: int = 10_000) -> None:
        """Let turns pass until nothing is left to do."""
        for _ in range(most):
            if not self._soon:
                return
            self.turn()
        raise AssertionError(f"still busy after {most} turns")


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files with an authority's certificate, and with keys and certificates that it signed."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
