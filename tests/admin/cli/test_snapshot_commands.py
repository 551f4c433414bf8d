"""``purgatorio snapshot`` against a running cluster."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.testing import Kafka

Run = Callable[[str], str]


def test_a_cluster_is_saved_and_made_so_again(command: Run, controlled: Kafka) -> None:
    assert command("snapshot list") == "there are no snapshots"
    controlled.produce("orders", "tea")
    assert command("snapshot take base").startswith("snapshot base has 1 topic, ")
    controlled.produce("orders", "later")
    controlled.topic("later")
    controlled.partition([1], [2, 3])
    assert command("snapshot restore base").startswith("the cluster is as it was at snapshot base, with 1 topic")
    assert [each.value for each in controlled.records("orders")] == [b"tea"]
    assert command("network show") == "the network is whole"
    leader = controlled.move_leader("orders")
    assert f"→ {leader}" in controlled.report(), "the report follows the restored cluster"
    assert command("snapshot take").startswith("snapshot 1 has")
    assert command("snapshot take").startswith("snapshot 2 has")
    assert [line.split()[:2] for line in command("snapshot list").splitlines()[1:]] == [
        ["base", "1"],
        ["1", "1"],
        ["2", "1"],
    ]
    for name in ("base", "1", "2"):
        assert command(f"snapshot remove {name}") == f"snapshot {name} is removed"


def test_a_name_that_is_taken_or_unknown_is_told(command: Run) -> None:
    command("snapshot take before")
    assert command("snapshot take before").endswith("there is a snapshot 'before' already; remove it first")
    assert command("snapshot restore befor").endswith("there is no snapshot 'befor'; did you mean before?")
    assert command("snapshot remove other").endswith("there is no snapshot 'other'")
    command("snapshot remove before")
