"""``purgatorio parked`` against a running cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from purgatorio.testing import Kafka

Run = Callable[[str], str]


def test_what_waits_is_listed_and_expired(command: Run, controlled: Kafka) -> None:
    assert command("parked list") == "nothing is parked"
    controlled.hold_follower(next(each for each in controlled.brokers if each != controlled.leader("orders")))
    failures: list[Exception] = []

    def produce() -> None:
        try:
            controlled.produce("orders", "late")
        except TimeoutError as error:
            failures.append(error)

    producing = threading.Thread(target=produce)
    producing.start()
    (waiting,) = controlled.until_parked(api="Produce").wait()
    head, row = command("parked list --api Produce --client purgatorio.testing").splitlines()
    assert head.split() == ["BROKER", "PURGATORY", "ID", "CLIENT", "WAITED-MS", "LEFT-MS", "MISSING"]
    assert row.split()[:4] == [str(waiting.broker), "Produce", str(waiting.id), "purgatorio.testing"]
    assert "orders-0: broker " in row
    assert command("parked list --client other") == "nothing is parked"
    line = f"parked expire {waiting.broker} Produce {waiting.id}"
    assert command(line) == f"Produce operation {waiting.id} of broker {waiting.broker} has expired"
    producing.join()
    controlled.release()
    assert len(failures) == 1
    assert "no such operation parked" in command(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("parked list --api Persister", "nothing is parked"),  # it is made when it is needed
        ("parked expire 1 Persister 1", "no operation of broker 1 has been parked in Persister yet"),
        ("parked list --api produse", "there is no purgatory 'produse'; did you mean Produce?"),
        ("parked list --api x", "there is no purgatory 'x', only Produce, Fetch"),
        ("parked expire 1 Produse 1", "has no such purgatory, only Produce"),
    ],
)
def test_a_purgatory_that_is_none_or_is_made_late_is_told(command: Run, line: str, why: str) -> None:
    assert why in command(line)
