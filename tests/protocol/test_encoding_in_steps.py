"""Encoding in steps makes the same bytes as encoding at once, in steps that are short."""

from __future__ import annotations

import pytest

from purgatorio.protocol.api import APIS, Api, ApiKey, EncodedResponse, encode_response, encode_response_in_steps
from purgatorio.protocol.encoder import STEP_CHUNKS
from purgatorio.protocol.errors import EncodeError
from purgatorio.protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsResponse,
    TopicData,
)
from purgatorio.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from purgatorio.protocol.primitives import Buffer
from tests.protocol.random_messages import Maker


def in_steps(key: int, version: int, response: object) -> tuple[list[Buffer], int]:
    """Return the parts, and the number of the steps after the first."""
    encoding = encode_response_in_steps(key, version, 7, response)  # type: ignore[arg-type]
    steps = 0
    while True:
        try:
            next(encoding)
        except StopIteration as end:
            return end.value, steps
        steps += 1


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: ApiKey(api.key).name)
def test_the_bytes_are_those_of_encoding_at_once(api: Api) -> None:
    for version in {api.versions[0], api.versions[-1]}:
        response = Maker(f"{api.key}-{version}", version).message(api.response)
        parts, _ = in_steps(api.key, version, response)
        assert b"".join(parts) == b"".join(encode_response(api.key, version, 7, response))


@pytest.mark.parametrize("version", [0, 5])
def test_a_long_answer_of_texts_takes_steps(version: int) -> None:
    response = ListGroupsResponse(groups=[ListedGroup(group_id=f"group{n}") for n in range(2 * STEP_CHUNKS)])
    parts, steps = in_steps(ApiKey.LIST_GROUPS, version, response)
    assert steps >= 3
    assert b"".join(parts) == b"".join(encode_response(ApiKey.LIST_GROUPS, version, 7, response))


def test_a_long_answer_of_numbers_takes_steps() -> None:
    topics = [TopicData(topic="t", partitions=list(range(8 * STEP_CHUNKS // 4))) for _ in range(12)]
    response = DescribeTransactionsResponse(transaction_states=[DescribedTransaction(topics=topics)])
    parts, steps = in_steps(ApiKey.DESCRIBE_TRANSACTIONS, 0, response)
    assert steps >= 2
    assert b"".join(parts) == b"".join(encode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, 7, response))


def test_an_encoded_answer_takes_none() -> None:
    assert in_steps(ApiKey.LIST_GROUPS, 5, EncodedResponse(b"abc"))[1] == 0


def test_an_answer_that_cannot_be_encoded_fails() -> None:
    with pytest.raises(EncodeError):
        in_steps(ApiKey.LIST_GROUPS, 5, ListGroupsResponse(groups=[ListedGroup(group_id=7)]))  # type: ignore[arg-type]
