"""``purgatorio network`` and ``broker pause``: what they do is done in Python too, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka

Run = Callable[[str], str]


@pytest.fixture(autouse=True)
def whole(controlled: Kafka) -> Iterator[None]:
    """Undo what a test has done."""
    yield
    controlled.resume()
    controlled.heal()
    controlled.release()


def test_the_network_is_cut_and_healed(command: Run, controlled: Kafka) -> None:
    assert command("network partition 1 2,3") == "the network is cut between brokers 1 | 2,3"
    assert "(cut off from 2 3)" in controlled.report()
    assert "running (cut off from 2,3)" in command("broker list")
    assert command("network heal") == "the network is whole"
    controlled.partition([1, 2], [3])
    assert command("network show") == "the network is cut between brokers 1,2 | 3"


def test_a_broker_stands_still_and_goes_on(command: Run, controlled: Kafka) -> None:
    assert command("broker pause 2") == "broker 2 stands still; the others notice when its lease ends"
    controlled.pause(3)
    assert command("network show").splitlines()[1] == "brokers that stand still: 2,3"
    assert "running (paused)" in command("broker list")
    assert command("broker resume 2") == "broker 2 goes on"
    assert command("broker resume") == "all brokers go on"
    assert "paused" not in controlled.report()


def test_the_admin_answers_when_all_brokers_stand_still(command: Run) -> None:
    for broker in (1, 2, 3):
        command(f"broker pause {broker}")
    assert command("topics move-leader orders").endswith("no broker is running that reaches the metadata")
    assert command("topics elect").endswith("no broker is running that reaches the metadata")
    assert command("broker resume") == "all brokers go on"


def test_a_follower_is_held_and_released(command: Run, controlled: Kafka) -> None:
    assert command("broker hold-follower 3") == "broker 3 sends no fetch to leaders"
    assert "(held)" in controlled.report()
    assert command("broker release") == "all followers fetch again"
    assert "(held)" not in controlled.report()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("network partition 1,2,3", "name at least two groups of brokers"),
        ("network partition 1 1,2", "a broker can be in one group only"),
        ("network partition 1 7", "there is no broker 7, only 1, 2, 3"),
        ("broker pause 7", "there is no such broker, only 1, 2, 3"),
        ("broker resume 7", "there is no such broker, only 1, 2, 3"),
    ],
)
def test_what_cannot_be_is_refused(command: Run, line: str, why: str) -> None:
    assert why in command(line)


def test_a_group_that_is_no_list_of_brokers_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["network", "partition", "1", "two"])
    assert "'two' is not a list of brokers like 2,3" in capsys.readouterr().err
