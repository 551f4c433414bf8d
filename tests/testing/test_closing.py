"""The hint about clients that took long to close."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from purgatorio.testing.closing import hint


class Producer(contextlib.AbstractContextManager[None]):
    """Named like confluent-kafka's."""

    def __exit__(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def something() -> Iterator[None]:
    """A block that is no client's."""
    yield


def failure(raises_in: str) -> AssertionError:
    """Return an exception that left blocks."""
    try:
        with something():
            if raises_in == "outer":
                raise AssertionError
            with Producer():
                raise AssertionError
    except AssertionError as error:
        return error


def test_the_clients_block_is_named_with_what_makes_its_end_shorter() -> None:
    assert hint(failure("inner"), __file__, 1.04, 9.86) == (
        "the test failed at 1.0 s; leaving `with Producer` took 9.9 s: its end waits for the cluster, "
        "at most for message.timeout.ms"
    )


def test_a_block_that_is_not_known_is_named_alone() -> None:
    assert hint(failure("outer"), __file__, 1, 2) == "the test failed at 1.0 s; leaving `with something` took 2.0 s"


def test_without_a_block_or_its_source_the_times_are_said() -> None:
    assert hint(AssertionError(), __file__, 1, 2) == "the test failed at 1.0 s, and ended 2.0 s later"
    assert hint(failure("inner"), "<no such file>", 1, 2) == "the test failed at 1.0 s, and ended 2.0 s later"


def test_a_quick_end_is_not_worth_a_word() -> None:
    assert hint(failure("inner"), __file__, 1, 0.9) == ""
