"""The drawn requests are answered as Apache Kafka answers them, but for the differences of `known_drawn.py`."""

from __future__ import annotations

import pytest

from tests.compat.same_answers.drawn import CLIENTS, Drawn, ask_everywhere, known
from tests.compat.same_answers.known_drawn import KNOWN_DRAWN, SOMETIMES
from tests.java import needs_java

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1_800), needs_java]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    """What both tests look at."""
    return Drawn()


def test_drawn_requests_have_the_same_answers(drawn: Drawn) -> None:
    """About 36,000 requests to each cluster, in some minutes."""
    try:
        ask_everywhere(drawn)
    except SystemExit as error:  # Maven Central is not reached
        pytest.skip(str(error))
    unknown = [line for lines in drawn.found.values() for line in lines if not known(line)]
    assert not unknown, "\n".join(unknown)


def test_known_differences_are_still_there(drawn: Drawn) -> None:
    """What no longer differs has no place in the list."""
    if len(drawn.clients) < len(CLIENTS):
        pytest.skip("not all clients asked before this test")
    seen = {pattern for lines in drawn.found.values() for line in lines for pattern in known(line)}
    assert not KNOWN_DRAWN.keys() - seen - SOMETIMES
