"""``purgatorio txn``: what a user reads, and what is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from purgatorio.admin.cli import main as cli
from purgatorio.admin.cli.admin_client import AdminError


class FakeAdmin:
    """An admin HTTP with an answer for each path; others are refused with a sentence."""

    def __init__(self, answers: dict[str, dict[str, Any]], refusal: str) -> None:
        self.answers = answers
        self.refusal = refusal
        self.asked: list[tuple[str, Any]] = []

    def get(self, path: str) -> dict[str, Any]:
        return self.post(path)

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append((path, body))
        if path not in self.answers:
            raise AdminError(self.refusal)
        return self.answers[path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[FakeAdmin, str]]:
    """Run a command against an admin HTTP with these answers; returns what was asked and what was printed."""

    def asked(
        answers: dict[str, dict[str, Any]], *argv: str, refusal: str = "refused", code: int = 0
    ) -> tuple[FakeAdmin, str]:
        admin = FakeAdmin(answers, refusal)
        monkeypatch.setattr("purgatorio.admin.cli.admin_client.AdminClient", lambda *_: admin)
        assert cli.main(["txn", *argv]) == code
        outcome = capsys.readouterr()
        return admin, outcome.err if code else outcome.out

    return asked


def transaction(**facts: Any) -> dict[str, Any]:
    """A transaction as the admin HTTP tells it."""
    known = {
        "id": "billing-1",
        "state": "Ongoing",
        "producer_id": 4000,
        "producer_epoch": 2,
        "coordinator": 1,
        "open_ms": 2_100,
        "timeout_ms": 60_000,
        "timeout_left_ms": 57_900,
        "partition_count": 2,
        "waits_for": "",
    }
    return {**known, **facts}


def listed(*transactions: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """A list of transactions as the admin HTTP tells it."""
    known = {"transactions": list(transactions), "transaction_count": len(transactions), "loading_partition_count": 0}
    return {**known, **facts}


def test_transactions_are_listed(run: Any) -> None:
    done = transaction(
        id="x\x1b[2J", state="PrepareCommit", timeout_left_ms=None, waits_for="waits for the marker of orders-0"
    )
    answer = listed(transaction(), done, transaction_count=3, loading_partition_count=1)
    _, said = run({"transactions": answer}, "list")
    assert said.splitlines() == [
        "ID         STATE          PRODUCER  EPOCH  OPEN   TIMES OUT IN  PARTITIONS  COORDINATOR  WAITS FOR",
        "billing-1  Ongoing        4000      2      2.1 s  57.9 s        2           1",
        "x?[2J      PrepareCommit  4000      2      2.1 s  -             2           1            "
        "waits for the marker of orders-0",
        "and 1 more",
        "some transactional ids are being loaded by their coordinators, and are not listed yet",
    ]


def test_filters_are_sent(run: Any) -> None:
    path = "transactions?state=PrepareAbort&producer_id=4000&open_longer_than_ms=1500"
    argv = ["list", "--state", "prepareabort", "--producer-id", "4000", "--longer-than", "1.5"]
    admin, _ = run({path: listed()}, *argv)
    assert admin.asked == [(path, None)]


def test_the_answer_is_printed_as_json_on_demand(run: Any) -> None:
    _, said = run({"transactions": listed(transaction())}, "list", "--json")
    assert json.loads(said) == listed(transaction())


def test_hanging_transactions_are_listed(run: Any) -> None:
    hanging = {
        "topic": "orders",
        "partition": 3,
        "producer_id": 4000,
        "producer_epoch": 2,
        "start_offset": 17,
        "open_ms": 2_100,
        "id": "",
    }
    _, said = run({"hanging-transactions": listed(hanging)}, "list", "--hanging")
    assert said.splitlines() == [
        "PARTITION  PRODUCER  EPOCH  FIRST OFFSET  OPEN   ID",
        "orders-3   4000      2      17            2.1 s  -",
    ]
    _, said = run({"hanging-transactions": listed()}, "list", "--hanging")
    assert said == "no transaction hangs\n"


def test_an_empty_list_is_said_to_be_empty(run: Any) -> None:
    _, said = run({"transactions": listed()}, "list")
    assert said == "no transactional id is listed\n"


def test_a_transaction_is_described(run: Any) -> None:
    partitions = [
        {"topic": "orders", "partition": each, "leader": each - 1, "marker_missing": False} for each in (0, 1)
    ]
    _, said = run({"transactions/a%2Fb": transaction(id="a/b", partitions=partitions)}, "describe", "a/b")
    assert said.splitlines() == [
        "transactional id a/b: Ongoing, coordinator broker 1",
        "producer 4000, epoch 2, timeout 60.0 s",
        "open 2.1 s, times out in 57.9 s",
        "",
        "PARTITION  LEADER",
        "orders-0   -",
        "orders-1   0",
    ]


def test_of_a_transaction_that_ends_the_missing_markers_are_told(run: Any) -> None:
    partitions = [{"topic": "orders", "partition": each, "leader": 1, "marker_missing": each > 0} for each in (0, 1)]
    ending = transaction(state="PrepareCommit", timeout_left_ms=None, partitions=partitions, partition_count=5)
    _, said = run({"transactions/billing-1": {**ending, "waits_for": "waits for broker 1"}}, "describe", "billing-1")
    assert said.splitlines()[2:] == [
        "open 2.1 s",
        "waits for broker 1",
        "",
        "PARTITION  LEADER  MARKER",
        "orders-0   1       written",
        "orders-1   1       missing",
        "and 3 more",
    ]


def test_a_transactional_id_without_a_transaction_has_no_partitions(run: Any) -> None:
    idle = transaction(state="Empty", open_ms=None, timeout_left_ms=None, partitions=[], partition_count=0)
    _, said = run({"transactions/billing-1": idle}, "describe", "billing-1")
    assert said.splitlines()[1:] == ["producer 4000, epoch 2, timeout 60.0 s", "", "no partitions"]


def test_a_transaction_is_aborted(run: Any) -> None:
    path = "transactions/billing-1/abort"
    admin, said = run({path: {"id": "billing-1", "producer_id": 4000, "producer_epoch": 4}}, "abort", "billing-1")
    assert admin.asked == [(path, None)]
    assert said == "the transaction of billing-1 is aborted, and its producer is fenced\n"


@pytest.mark.parametrize("command", ["abort", "describe"])
def test_a_similar_id_is_named_if_there_is_none_with_this_name(run: Any, command: str) -> None:
    refusal = "there is no transactional id biling-1"
    _, said = run({"transactions": listed(transaction())}, command, "biling-1", refusal=refusal, code=1)
    assert said == f"purgatorio: {refusal}; did you mean billing-1?\n"
    _, said = run({"transactions": listed()}, command, "biling-1", refusal=refusal, code=1)
    assert said == f"purgatorio: {refusal}\n"


def test_after_another_refusal_no_id_is_proposed(run: Any) -> None:
    admin, said = run({}, "abort", "billing-1", refusal="billing-1 has no open transaction", code=1)
    assert (said, len(admin.asked)) == ("purgatorio: billing-1 has no open transaction\n", 1)


def test_a_hanging_transaction_is_aborted(run: Any) -> None:
    path = "hanging-transactions/abort"
    admin, said = run({path: {}}, "abort", "--hanging", "my-orders-3", "--producer-id", "4000")
    assert admin.asked == [(path, {"topic": "my-orders", "partition": 3, "producer_id": 4000})]
    assert said == "the transaction of producer 4000 in my-orders-3 is aborted\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["list", "--state", "ongong"], "'ongong' is not a state; did you mean Ongoing?"),
        (["list", "--state", "x"], "'x' is not a state; the states are Empty, Ongoing,"),
        (["list", "--longer-than", "soon"], "'soon' is not a time in seconds"),
        (["list", "--longer-than=-1"], "'-1' is not a time in seconds"),
        (["abort"], "give a transactional id, or --hanging and --producer-id"),
        (["abort", "billing-1", "--producer-id", "7"], "give a transactional id, or --hanging and --producer-id"),
        (["abort", "--hanging", "orders-0"], "--hanging needs --producer-id, and no transactional id"),
        (["abort", "--hanging", "orders", "--producer-id", "7"], "'orders' is not a partition such as orders-0"),
    ],
)
def test_wrong_usage_is_told(run: Any, capsys: pytest.CaptureFixture[str], argv: list[str], says: str) -> None:
    with pytest.raises(SystemExit) as left:
        run({}, *argv)
    assert left.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.timeout(60)
def test_a_producers_transaction_is_shown_and_aborted(
    start_purgatorio: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    greeting = start_purgatorio("serve", "--port", "0", "--admin-port", "0").greeting()
    port, admin = re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", greeting)[:2]

    def said(*argv: str, code: int = 0) -> str:
        assert cli.main(["txn", *argv, "--admin", f"http://127.0.0.1:{admin}"]) == code
        outcome = capsys.readouterr()
        return outcome.err if code else outcome.out

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": "billing-1", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"a", partition=0)
    producer.flush()
    assert re.search(r"billing-1 +Ongoing +\d+ +0 +\d+\.\d s +\d+\.\d s +1 +1\n", said("list"))
    assert re.search(
        r"open \d+\.\d s, times out in \d+\.\d s\n\nPARTITION  LEADER\norders-0   1\n", said("describe", "billing-1")
    )
    assert said("list", "--hanging") == "no transaction hangs\n"
    producer_id = str(json.loads(said("describe", "billing-1", "--json"))["producer_id"])
    refused = said("abort", "--hanging", "orders-0", "--producer-id", producer_id, code=1)
    assert refused.endswith("the coordinator of billing-1 knows it, in state Ongoing; abort billing-1 instead\n")
    assert said("abort", "billing-1") == "the transaction of billing-1 is aborted, and its producer is fenced\n"
    assert said("abort", "billing-1", code=1).endswith("billing-1 has no open transaction: its state is Empty\n")
    assert said("abort", "biling-1", code=1).endswith("did you mean billing-1?\n")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction()
    assert fenced.value.args[0].code() == KafkaError._FENCED
