"""A class that declares an operation is all that it takes: each way to it follows."""

from __future__ import annotations

import argparse
import json
import sys
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from purgatorio.admin.cli.command import Parser
from purgatorio.admin.cli.commands import add_commands
from purgatorio.admin.operations.declare import Answer, Int32, Operation, arg
from purgatorio.admin.operations.table import LEARNING, OPERATIONS
from purgatorio.admin.operations.topics import ListTopics, MoveLeader
from purgatorio.admin.web.app import _not_answered
from purgatorio.admin.web.openapi import openapi
from purgatorio.admin.web.router import listed, routes
from purgatorio.purgatory.clock import ManualClock
from purgatorio.testing import cluster

KNOWN = tuple(each for known in Operation.__subclasses__() for each in (known, *known.__subclasses__()))


class Greet(Operation, http="POST /greetings/{id}", command="broker greet", says="hello {name} of {id}, {times} times"):
    """Greet a client, politely."""

    id: int = arg("a broker", metavar="N")
    name: str = arg("the client's name", positional=True)
    times: Int32 = arg("how often; once if it is not given", default=1)

    def check(self) -> None:
        if self.times == 0:
            raise ValueError("0 times is no greeting")

    async def run(self, operator: Any) -> Answer:
        return {"greeted": self.name, "by": self.id, "times": self.times}


def test_each_operation_is_in_the_table_once() -> None:
    assert {*OPERATIONS, *LEARNING} == set(KNOWN)
    assert len(OPERATIONS) == len({(each.method, each.path) for each in OPERATIONS})
    commands = [each.command for each in OPERATIONS if each.command]
    assert len(commands) == len(set(commands))


def test_it_is_in_the_list_of_the_api_and_in_its_openapi_document() -> None:
    assert listed(Greet) == {
        "method": "POST",
        "path": "/api/v1/greetings/{id}",
        "does": "greet a client, politely",
        "body": {"name": "the client's name", "times": "how often; once if it is not given"},
    }
    document = openapi([Greet])["paths"]["/api/v1/greetings/{id}"]["post"]
    assert document["parameters"][0]["name"] == "id"
    body = document["requestBody"]["content"]["application/json"]["schema"]
    assert (body["required"], body["properties"]["times"]["maximum"]) == (["name"], 2**31 - 1)


@pytest.mark.parametrize(
    ("body", "status", "answer"),
    [
        ({"name": "billing"}, 200, {"greeted": "billing", "by": 7, "times": 1}),
        ({"name": "billing", "times": -1}, 400, {"error": "times: Input should be greater than or equal to 0"}),
        ({"name": "billing", "times": 0}, 400, {"error": "0 times is no greeting"}),
        ({"nam": "billing"}, 400, {"error": "name: Field required; nam: there is no such field; did you mean name?"}),
    ],
)
async def test_http_answers_it(body: Any, status: int, answer: Any) -> None:
    operator: Any = SimpleNamespace(cluster=SimpleNamespace(clock=ManualClock(0)))
    app = Starlette(routes=routes(operator, "", [Greet]), exception_handlers={HTTPException: _not_answered})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        response = await client.post("/api/v1/greetings/7", json=body)
    assert (response.status_code, response.json()) == (status, answer)


class FakeAdmin:
    def __init__(self, *_: object) -> None:
        pass

    def post(self, path: str, body: Any = None) -> Any:
        return {"path": path, "body": body}


def test_it_is_a_command_with_help_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("purgatorio.admin.cli.admin_client.AdminClient", FakeAdmin)
    parser = Parser()
    add_commands(parser.add_subparsers(), [Greet])
    with pytest.raises(SystemExit):
        parser.parse_args(["broker", "greet", "--help"])
    told = capsys.readouterr().out
    assert "Greet a client, politely." in told
    assert "--times TIMES" in told
    args = parser.parse_args(["broker", "greet", "2", "billing"])
    assert args.run(args) == 0
    assert capsys.readouterr().out == "hello billing of 2, 1 times\n"
    args = parser.parse_args(["broker", "greet", "2", "billing", "--times", "3", "--json"])
    assert args.run(args) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "greetings/2", "body": {"name": "billing", "times": 3}}


def test_every_command_that_asks_a_cluster_can_answer_in_json() -> None:
    add_commands(groups := Parser().add_subparsers())
    assert {each.command.split()[0] for each in OPERATIONS if each.command} <= groups.choices.keys()
    for name, group in groups.choices.items():
        assert group.fill is not None
        group.fill()
        (subcommands,) = (each for each in group._actions if isinstance(each, argparse._SubParsersAction))
        for command, words in subcommands.choices.items():
            assert "--json" in words._option_string_actions, (name, command)


def test_a_test_can_do_it() -> None:
    with cluster(brokers=1) as kafka:
        assert kafka.do(Greet(1, "billing")) == {"greeted": "billing", "by": 1, "times": 1}
        assert kafka.do(ListTopics("orders"))["partitions"] == []
        with pytest.raises(ValueError, match="there is no topic 'orders'"):
            kafka.do(MoveLeader("orders"))


def test_types_are_known_when_the_module_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest's own runs within a test drop the modules that they have imported."""
    monkeypatch.delitem(sys.modules, MoveLeader.__module__)
    assert [each.kind for each in MoveLeader.arguments()] == [str, int, int]
