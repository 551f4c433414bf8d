"""The admin HTTP over several processes: it shows what one process with all brokers would show."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.admin.web.app import create_app
from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest, Unreachable, ask
from purgatorio.admin.web.front import Front
from purgatorio.admin.web.merging import _MERGES
from purgatorio.admin.web.proofs import SCHEME, Proofs, asked_as
from purgatorio.admin.web.server import AdminServer
from purgatorio.admin.web.tokens import AdminTokens
from purgatorio.broker.cluster.errors import OperationRefused

HOST = "broker.example"
PAGE = "http://10.0.0.12:9644/broker"


class OneBroker(SimpleNamespace):
    """One broker of a cluster, as its process sees it."""

    def __init__(self, cluster: Any, broker_id: int) -> None:
        super().__init__(**vars(cluster))
        self.cluster_id, self.has_begun = cluster.cluster_id, cluster.has_begun
        self.brokers = [each for each in cluster.brokers if each.broker_id == broker_id]
        self.broker_ids = [broker_id]


class FakeProcesses:
    """A process for each broker of a cluster that is in this one."""

    def __init__(self, cluster: Any) -> None:
        self.clock = cluster.clock
        self.broker_ids = self.own_ids = [1, 2, 3]
        self.active_and_fenced = 2, 1
        self.targets = {1: "http://localhost:9645", 2: "http://10.0.0.12:9644/broker"}
        self.unreachable: set[int] = set()
        self.asked: list[tuple[int, str]] = []
        self.controlled: list[tuple[str, int | None]] = []
        views = {each: OneBroker(cluster, each) for each in self.broker_ids}
        self._apps = {each: create_app(view, ClusterControl(view), allowed_host=HOST) for each, view in views.items()}  # type: ignore[arg-type]

    async def ask(self, broker_id: int, asked: ForwardedRequest) -> ForwardedAnswer:
        if broker_id in self.unreachable:
            raise Unreachable(f"broker {broker_id} cannot be asked: its process has ended: SIGKILL")
        self.asked.append((broker_id, asked.target))
        return await ask(self._apps[broker_id], asked)

    def row(self, broker_id: int, known: Any) -> Any:
        return known or {"id": broker_id, "state": "stopped"}

    async def control(self, operation: type[Operation], broker_id: int | None) -> Any:
        if broker_id == 3:
            raise OperationRefused("broker 3 is not running")
        self.controlled.append((operation.__name__, broker_id))
        return {"broker": broker_id}


@pytest.fixture
def processes(cluster: Any) -> FakeProcesses:
    return FakeProcesses(cluster)


@pytest.fixture
async def front(processes: FakeProcesses) -> AsyncIterator[httpx.AsyncClient]:
    app = Front(processes)._create_app(HOST, None)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9644") as asking:
        yield asking


def fill(cluster: Any, fake_log: Callable[..., Any], fake_follower: Callable[..., Any], state_of: Any) -> None:
    """Give the brokers partitions with lagging followers, operations that wait, and some that have ended."""
    cluster.has_topic("orders", state_of(1), state_of(2))
    for index, leader in enumerate((1, 2)):
        followers = {each: fake_follower(each) for each in (1, 2, 3) if each != leader}
        facts = {"is_leader": True, "log": fake_log(7), "high_watermark": 3, "followers": followers}
        cluster.brokers[leader - 1].holds("orders", index, **facts)
        cluster.brokers[2 - leader].holds("orders", index, log=fake_log(5), high_watermark=3)
        cluster.brokers[2].holds("orders", index, log=fake_log(3), high_watermark=2, refusal="no room")
    for broker in cluster.brokers:
        broker.park_produce()
        ended = broker.park_fetch()
        cluster.clock.advance_ms(10)
        ended.force_complete()


@pytest.mark.parametrize(
    "path",
    [
        "state",
        "state?partitions=orders-1",
        "matrix",
        "brokers",
        "finished",
        "connections",
        "groups",
        "transactions",
        "faults",
        "topics",
        "topics/orders",
        "network",
        "clients",
        "parked",
        "parked?api=Produce&topic=orders-1&operations=1",
    ],
)
async def test_the_whole_is_what_one_process_with_all_brokers_shows(
    path: str, front: Any, client: Any, cluster: Any, fake_log: Any, fake_follower: Any, state_of: Any
) -> None:
    fill(cluster, fake_log, fake_follower, state_of)
    one, several = await client.get(f"/api/v1/{path}"), await front.get(f"/api/v1/{path}")
    assert (one.status_code, several.status_code) == (200, 200)
    assert several.json() == one.json()


async def test_a_fault_rule_counts_what_it_did_in_all_processes(front: Any, cluster: Any, processes: Any) -> None:
    # In this test all processes have the same rules, so that each rule is counted three times.
    await front.post("/api/v1/faults", json={"api": "produce", "error": "NOT_LEADER_OR_FOLLOWER"})
    assert [target for _, target in processes.asked] == ["/api/v1/faults"] * 3
    cluster.faults.rules[0].matched = 2
    (rule, *_) = (await front.get("/api/v1/faults")).json()["faults"]
    assert (rule["id"], rule["matched"]) == (1, 6)


async def test_an_operation_on_a_broker_goes_to_its_process(front: Any, cluster: Any, processes: Any) -> None:
    answer = await front.post("/api/v1/brokers/2/follower", json={"held": True})
    assert answer.json() == {"broker": 2, "held": True, "delay_ms": 0}
    assert [each.gate.held for each in cluster.brokers] == [False, True, False]
    assert processes.asked == [(2, "/api/v1/brokers/2/follower")]
    unknown = await front.post("/api/v1/brokers/7/follower", json={"held": True})
    assert (unknown.status_code, unknown.json()) == (404, {"error": "there is no broker 7, only 1, 2, 3"})


async def test_what_the_metadata_has_any_process_answers(front: Any, processes: Any) -> None:
    processes.unreachable = {1}
    assert (await front.get("/api/v1/topics")).status_code == 200
    assert processes.asked == [(2, "/api/v1/topics")]


async def test_who_does_not_know_a_group_is_passed_over(front: Any, processes: Any) -> None:
    answer = await front.get("/api/v1/groups/nobody's")
    assert answer.status_code == 404
    assert [broker_id for broker_id, _ in processes.asked] == [1, 2, 3]


class Answers:
    """Has processes answer one after the other, each as it is told, or not at all."""

    def __init__(self, *outcomes: ForwardedAnswer | Unreachable) -> None:
        self.outcomes = list(outcomes)

    async def ask(self, broker_id: int, asked: ForwardedRequest) -> ForwardedAnswer:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome


def refusal(kind: str) -> ForwardedAnswer:
    return ForwardedAnswer(503, "application/json", json.dumps({"error": "not so", "refusal": kind}))


DONE = ForwardedAnswer(200, "application/json", '{"leader": 2}')
NO_JSON = ForwardedAnswer(503, "text/html", "<p>")
GONE = Unreachable("broker 1 cannot be asked: its process has ended: SIGKILL")
GONE_MEANWHILE = Unreachable("broker 1 cannot be asked: its process has ended: SIGKILL", was_asked=True)
CREATE = "/api/v1/topics"
DELETE = "/api/v1/groups/billing/delete"


@pytest.mark.parametrize(
    ("path", "outcomes", "status", "asked"),
    [
        (CREATE, [GONE, DONE], 200, 2),
        (CREATE, [GONE_MEANWHILE, DONE], 503, 1),
        (CREATE, [refusal("MayBeDone"), DONE], 503, 1),
        (DELETE, [GONE_MEANWHILE, DONE], 503, 1),
        (DELETE, [refusal("TimedOut"), DONE], 503, 1),
        (DELETE, [refusal("LeaderRefuses"), refusal("AwaitsElection")], 503, 1),
        (DELETE, [refusal("Elsewhere"), DONE], 200, 2),
        (DELETE, [refusal("Elsewhere"), GONE, refusal("Elsewhere"), DONE], 200, 4),
        (
            DELETE,
            [ForwardedAnswer(503, "text/html", "<p>"), ForwardedAnswer(404, "application/json", "{}"), GONE],
            503,
            3,
        ),
    ],
)
async def test_a_change_that_may_be_made_is_asked_of_no_other_process(
    path: str, outcomes: list[Any], status: int, asked: int, front: Any, processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process would make it twice, or refuse what the first has done: "topic orders exists already"."""
    answers = Answers(*outcomes)
    monkeypatch.setattr(processes, "ask", answers.ask)
    answer = await front.post(path, json={"name": "orders"} if path == CREATE else {})
    assert (answer.status_code, len(outcomes) - len(answers.outcomes)) == (status, asked)
    if outcomes[0] is GONE_MEANWHILE:
        error = f"{GONE_MEANWHILE}; it was asked, and may have done it"
        assert answer.json() == {"error": error, "refusal": "MayBeDone"}


async def test_a_partition_without_a_leader_is_refused_at_once(front: Any, cluster: Any, state_of: Any) -> None:
    cluster.has_topic("orders", state_of(-1))
    refused = await front.get("/api/v1/topics/orders/leader")
    assert (refused.status_code, refused.json()) == (503, {"error": "orders-0 has no leader now"})


async def test_the_supervisor_does_to_processes_what_only_it_can(front: Any, processes: Any) -> None:
    for change in ("kill", "pause", "resume", "start"):
        assert (await front.post(f"/api/v1/brokers/2/{change}", json={})).status_code == 200
    await front.post("/api/v1/brokers/resume", json={})
    assert processes.asked == []
    assert processes.controlled == [
        ("KillBroker", 2),
        ("PauseBroker", 2),
        ("ResumeBroker", 2),
        ("StartBroker", 2),
        ("ResumeBrokers", None),
    ]
    refused = await front.post("/api/v1/brokers/3/kill", json={})
    assert (refused.status_code, refused.json()) == (409, {"error": "broker 3 is not running"})


async def test_a_broker_whose_stop_would_lose_records_is_not_stopped(
    front: Any, cluster: Any, processes: Any, state_of: Any
) -> None:
    cluster.has_topic("single", state_of(2, replicas=(2,)))
    answer = await front.post("/api/v1/brokers/2/stop", json={})
    assert answer.status_code == 409
    assert "the last in-sync replica of single-0" in answer.json()["error"]
    assert processes.controlled == []


async def test_what_needs_one_process_is_refused_in_a_sentence(front: Any) -> None:
    answer = await front.post("/api/v1/snapshots", json={})
    assert answer.status_code == 409
    assert answer.json() == {"error": "this needs all brokers in one process: purgatorio cluster without --processes"}


async def test_a_process_that_is_gone_is_shown_as_such(front: Any, processes: Any) -> None:
    processes.unreachable = {2}
    state = (await front.get("/api/v1/state")).json()
    assert [(row["id"], row["state"], row["purgatories"] == []) for row in state["brokers"]] == [
        (1, "running", False),
        (2, "stopped", True),
        (3, "running", False),
    ]
    refused = await front.get("/api/v1/brokers/2/purgatories/Produce")
    assert refused.status_code == 503
    assert refused.json() == {"error": "broker 2 cannot be asked: its process has ended: SIGKILL"}
    processes.unreachable = {1, 2, 3}
    assert (await front.get("/api/v1/state")).json() == {"error": "no broker's process answers"}
    assert (await front.get("/api/v1/topics")).status_code == 503


async def test_another_site_changes_nothing(front: Any, processes: Any) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert (await front.post("/api/v1/brokers/2/kill", json={}, headers=headers)).status_code == 403
    assert processes.controlled == []


async def test_readiness_names_the_brokers_that_are_not_ready(front: Any, processes: Any) -> None:
    assert (await front.get("/readyz")).json() == {"ready": True, "missing": []}
    processes.unreachable = {3}
    answer = await front.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "missing": [3]})


async def test_a_host_is_ready_when_its_own_broker_is(front: Any, processes: Any) -> None:
    """Else the death of one broker would take the others out of what asks for their readiness."""
    processes.own_ids = [2]
    processes.unreachable = {3}
    assert (await front.get("/readyz")).status_code == 200
    processes.unreachable = {2}
    assert (await front.get("/readyz")).json() == {"ready": False, "missing": [2]}


async def test_prometheus_finds_the_processes(front: Any) -> None:
    assert (await front.get("/api/v1/targets")).json() == [
        {"targets": ["localhost:9645"], "labels": {"broker_id": "1"}},
        {"targets": ["10.0.0.12:9644"], "labels": {"broker_id": "2", "__metrics_path__": "/broker/metrics"}},
    ]


async def test_the_numbers_of_brokers_are_reported_even_if_none_answers(front: Any, processes: FakeProcesses) -> None:
    processes.unreachable = {1, 2, 3}
    lines = (await front.get("/metrics")).text.splitlines()
    prefix = "kafka_controller_kafkacontroller"
    assert f'{prefix}_activebrokercount{{process="supervisor"}} 2.0' in lines
    assert f'{prefix}_fencedbrokercount{{process="supervisor"}} 1.0' in lines


async def test_the_own_broker_answers_below_a_path_of_the_same_port(processes: FakeProcesses, cluster: Any) -> None:
    front, token = Front(processes, token="secret"), {"authorization": "Bearer secret"}
    app = front._create_app(HOST, AdminTokens("secret"))
    own = AdminServer(OneBroker(cluster, 2), token="secret")  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:9644") as asking:
        assert (await asking.get("/broker/metrics", headers=token)).status_code == 404
        front.own = own.below(HOST, asked_as(2, PAGE))
        assert (await asking.get("/broker/metrics")).status_code == 401
        text = (await asking.get("/broker/metrics", headers=token)).text
        assert {*re.findall(r'purgatorysize\{broker="(\d)"', text)} == {"2"}
        text = (await asking.get("/metrics", headers=token)).text
        assert {*re.findall(r'purgatorysize\{broker="(\d)"', text)} == {"1", "2", "3"}
        assert (await asking.get("/brokerage", headers=token)).status_code == 404
        challenge = await asking.get("/broker", headers={"authorization": f"{SCHEME} ab"})
        assert challenge.headers["www-authenticate"].startswith(SCHEME)
        nonces = f"ab.{challenge.headers['www-authenticate'].removeprefix(f'{SCHEME} ')}"
        asked = ForwardedRequest("GET", "/broker/api/v1/brokers", {})
        proof = Proofs("secret", asked_as(2, PAGE)).of_request(nonces, asked)
        answer = await asking.get(asked.target, headers={"authorization": f"{SCHEME} {nonces}.{proof}"})
        assert [row["id"] for row in answer.json()["brokers"]] == [2]
    await own.stop()


async def test_metrics_are_those_of_all_processes(front: Any, cluster: Any) -> None:
    cluster.brokers[1].park_produce()
    lines = (await front.get("/metrics")).text.splitlines()
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    waiting = [line for line in lines if line.startswith(name) and "Produce" in line]
    assert [line.rpartition(" ")[2] for line in waiting] == ["0.0", "1.0", "0.0"]
    assert len([line for line in lines if line.startswith("process_resident_memory_bytes{")]) == 4
    assert len([line for line in lines if line.startswith(f"# TYPE {name} ")]) == 1


async def test_the_processes_are_asked_for_their_metrics_once_for_all_that_wait(
    front: Any, processes: FakeProcesses
) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    answers = await asyncio.gather(*(front.get("/metrics", headers=accept) for _ in range(20)))
    assert {each.text[-6:] for each in answers} == {"# EOF\n"}
    assert len(processes.asked) <= 2 * len(processes.broker_ids), "one for the first, one for those that came since"


def test_every_operation_that_all_answer_has_its_merge() -> None:
    of_all = {each for each in OPERATIONS if each.answered_by == "all brokers"}
    assert {each for each in of_all if each.made_of is None} == set(_MERGES)
    assert {each.made_of for each in of_all} - {None} <= set(_MERGES)


def test_operations_of_one_broker_name_it_in_their_path() -> None:
    its_broker = [each for each in OPERATIONS if each.answered_by == "its broker"]
    assert its_broker
    assert all(each.path.startswith("/brokers/{id}") for each in its_broker)


# --- pages ---


async def test_pages_share_what_the_processes_were_asked_for_once(
    front: httpx.AsyncClient, processes: FakeProcesses
) -> None:
    shared = {"Cache-Control": "max-age=10"}
    for _ in range(3):
        assert (await front.get("/api/v1/state", headers=shared)).json()["cluster_id"]
    assert len(processes.asked) == 3, "one request to each of three processes"
    await front.post("/api/v1/brokers/3/follower", json={"held": True})
    row = (await front.get("/api/v1/state", headers=shared)).json()["brokers"][2]
    assert row["follower"]["held"]


async def test_a_shared_answer_of_no_process_is_the_refusal_of_one(
    front: httpx.AsyncClient, processes: FakeProcesses
) -> None:
    response = await front.get("/api/v1/state?operations=x", headers={"Cache-Control": "max-age=10"})
    assert (response.status_code, "whole number" in response.json()["error"]) == (400, True)
