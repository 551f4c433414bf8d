"""No sentence that people read has anything of Python's: causes, fault rules, and refusals of operations."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.reading.state import read_state
from purgatorio.admin.operations.table import LEARNING, OPERATIONS
from purgatorio.broker.causes import cause as causes
from purgatorio.broker.causes.why import Why
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.faults import FaultError, parse_fault
from purgatorio.broker.layers.faults.rule import Rule
from purgatorio.broker.log.topic_partition import TopicPartition
from tests.plain_words import printed_by_python, texts_in

BAD: Final = (
    "nobody",
    "",
    "x" * 300,
    "at o'clock",
    None,
    True,
    -1,
    1.5,
    2**70,
    [],
    ["nobody"],
    {"nobody": 1},
    [{"nobody": None}],
)
"""Values of which each argument refuses most."""


class Name(enum.StrEnum):
    """The texts of the samples: such that each `repr` of one shows."""

    ID = "shop"


# --- causes ---


def samples(kind: Any) -> list[Any]:
    """Return values of a type: of a class one for each value of its fields, each in turn."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return list(args)
    if origin in (typing.Union, types.UnionType):
        return [value for each in args for value in samples(each)]
    if origin is tuple:
        return [(), tuple(samples(args[0])), (samples(args[0])[0],)]
    if kind is TopicPartition:
        return [TopicPartition("orders", 0)]
    known = {str: [Name.ID, ""], int: [0, 1, 2, -1], float: [1.0, 2e6], type(None): [None]}
    if kind in known:
        return known[kind]
    hints = {name: hint for name, hint in typing.get_type_hints(kind).items() if name in kind.__slots__}
    values = {name: samples(hint) for name, hint in hints.items()}
    longest = max(map(len, values.values()), default=1)
    return [
        kind(**{name: found[(nth + shift) % len(found)] for shift, (name, found) in enumerate(values.items())})
        for nth in range(longest)
    ] + [kind(**{name: found[nth % len(found)] for name, found in values.items()}) for nth in range(longest)]


@pytest.mark.parametrize("kind", typing.get_args(causes.Cause), ids=lambda kind: kind.__name__)
def test_causes_are_said_in_plain_words(cluster: Any, kind: type[Why]) -> None:
    """In the sentence of an operation, in the sentence and the actor of a group, on buttons, and once it has ended."""
    found = samples(kind)
    assert found
    for cause in found:
        assert printed_by_python([in_words([cause], lambda transaction: "times out in 3.0 s")]) == []
        parked = cluster.brokers[0].park_produce(causes=[cause])
        state = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)
        assert state["waits"]
        for wait in state["waits"]:
            told = [wait["says"], wait["missing"], wait["actor"], *(way["does"] for way in wait["ways"])]
            assert printed_by_python(told) == [], cause
        parked.expire()
    state = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)
    assert len(state["finished"]) == len(found)
    for row in state["finished"]:
        assert printed_by_python([row["detail"], row["cause"]]) == []


# --- fault rules ---

RULES: Final = (
    {"api": "Fetch", "hold": True, "when": lambda request: True},
    {"api": "Fetch", "reply": lambda request: request},
    {"api": "Produce", "topic": "orders", "partition": 0, "errors": ["NONE", "NOT_LEADER_OR_FOLLOWER"]},
    {"client": "shop", "disconnect": "after", "nth": 3},
    {"group": "g", "drop": "answer", "probability": 0.5},
    {"api": "Metadata", "hide": 2, "replica": 3, "name": "slow"},
    {"toxic": "latency", "latency_ms": 3},
    {"observe": True, "version": 0},
)


@pytest.mark.parametrize("data", RULES, ids=lambda data: " ".join(data))
def test_a_fault_rule_is_listed_in_plain_words(cluster: Any, data: dict[str, Any]) -> None:
    rule = cluster.faults.add(parse_fault(data, functions=True))
    assert printed_by_python([str(rule.rule), *texts_in(rule.as_data())]) == []


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(Rule)])
def test_a_fault_rule_is_refused_in_plain_words(name: str) -> None:
    for value in BAD:
        for data in ({name: value}, {name: value, "api": "Fetch", "hold": True}, {name: value, "toxic": "latency"}):
            assert printed_by_python([refusal(data)], given=[*texts_in(data), value, *data]) == [], data


def refusal(data: dict[str, Any]) -> str:
    """Return why a rule is refused, or nothing."""
    try:
        parse_fault(data)
    except FaultError as error:
        return str(error)
    return ""


# --- operations ---

GOOD: Final[dict[Any, Any]] = {str: "nobody", int: 1, float: 1.0, bool: True, bytes: "AAAA"}


def requests(operation: type[Operation]) -> Iterator[dict[str, Any]]:
    """Yield what is given to an operation: nothing, an unknown name, and each bad value of each argument."""
    arguments = list(operation.arguments())
    fitting = {each.name: GOOD.get(each.kind, "nobody") for each in arguments if each.is_required}
    yield {each.name: "nobody" for each in arguments if each.place == "path"}
    yield fitting
    yield {**fitting, "nobody": "nobody"}
    for argument in arguments:
        for value in BAD:
            if argument.place == "body" or (isinstance(value, (str, int, float)) and value is not True):
                yield {**fitting, argument.name: value}


@pytest.mark.slow
@pytest.mark.parametrize("operation", [*OPERATIONS, *LEARNING], ids=lambda operation: operation.__name__)
async def test_an_operation_refuses_bad_input_in_plain_words(
    client: httpx.AsyncClient, operation: type[Operation]
) -> None:
    refused = set()
    for given in requests(operation):
        path, body = operation.request(given)
        sent = None if operation.method == "GET" else body
        response = await client.request(operation.method, f"/api/v1/{path}", json=sent)
        if 400 <= response.status_code < 500:
            refused.add(response.json()["error"])
            assert (
                printed_by_python(
                    [response.json()["error"]], given=[*texts_in(given), *map(str, given.values()), *given]
                )
                == []
            ), (given, body)
    assert refused or not [each for each in operation.arguments() if each.kind is not str]
