"""The handlers of ShareFetch and ShareAcknowledge: what is refused, by the error's name, and what answers tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api.share_acknowledge import ShareAcknowledgeHandler
from purgatorio.broker.api.share_fetch import ShareFetchHandler
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from purgatorio.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import batch
from tests.broker.share.fetching import GROUP, ShareHarness

ACCEPT, RELEASE, REJECT, RENEW = range(1, 5)
UNKNOWN_ID = bytes(15) + b"\7"
NOTHING: dict[str, int] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


class Client:
    """Sends requests of member ada, whose group reads topic "orders" of ten records."""

    def __init__(self) -> None:
        self.house = ShareHarness()
        self.house.produce(records=batch(*[b"order"] * 10), acks=1)
        store = SimpleNamespace(image=self.house.image)
        services: Any = SimpleNamespace(
            led_shares=self.house.shares,
            replicas=self.house.replicas,
            fetch_max_bytes=1_000_000,
            admin=SimpleNamespace(store=store),
        )
        self._fetches, self._acknowledges = ShareFetchHandler(services), ShareAcknowledgeHandler(services)

    @property
    def topic_id(self) -> bytes:
        return self.house.key().topic_id

    def fetch(self, *said: tuple[int, int, int], epoch: int = 0, **changes: Any) -> Any:
        """Send a fetch with acknowledgements of first offset, last offset and type; return the answer."""
        partition = FetchPartition(partition_index=0, acknowledgement_batches=batches(said))
        request = ShareFetchRequest(
            **{
                "group_id": GROUP,
                "member_id": "ada",
                "share_session_epoch": epoch,
                "min_bytes": 1,
                "max_bytes": 1_000_000,
                "max_records": 500,
                "batch_size": 500,
                "topics": [FetchTopic(topic_id=self.topic_id, partitions=[partition])],
                **changes,
            }
        )
        replies = Replies()
        self._fetches.handle(context(ApiKey.SHARE_FETCH, 2), request, replies)
        return replies.only

    def acknowledge(self, *said: tuple[int, int, int], epoch: int = 1, **changes: Any) -> Any:
        """Send acknowledgements, and return the answer."""
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches(said))
        request = ShareAcknowledgeRequest(
            **{
                "group_id": GROUP,
                "member_id": "ada",
                "share_session_epoch": epoch,
                "topics": [AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
                **changes,
            }
        )
        replies = Replies()
        self._acknowledges.handle(context(ApiKey.SHARE_ACKNOWLEDGE, 2), request, replies)
        return replies.only


def batches(said: tuple[tuple[int, int, int], ...]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[kind]) for a, b, kind in said]


def partition_of(answer: Any) -> Any:
    assert answer.error_code == ErrorCode.NONE
    return answer.responses[0].partitions[0]


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count) for each in partition_of(answer).acquired_records
    ]


@pytest.fixture
def client() -> Client:
    return Client()


# --- refused as a whole ---


WRONG_SENDERS = pytest.mark.parametrize(
    "changes",
    [{"group_id": None}, {"group_id": ""}, {"member_id": None}, {"member_id": ""}, {"member_id": "x" * 37}],
    ids=["no group", "empty group", "no member", "empty member", "long member"],
)


@WRONG_SENDERS
def test_invalid_request_of_no_group_or_member_or_too_long_an_id(client: Client, changes: dict[str, Any]) -> None:
    for answer in (client.fetch(**changes), client.acknowledge((0, 0, ACCEPT), **changes)):
        assert (answer.error_code, bool(answer.error_message), answer.responses) == (
            ErrorCode.INVALID_REQUEST,
            True,
            [],
        )
    assert len(client.house.shares.sessions) == 0


@pytest.mark.parametrize("mode", [-1, 2])
def test_invalid_request_of_an_unknown_acquire_mode(client: Client, mode: int) -> None:
    assert client.fetch(share_acquire_mode=mode).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", NOTHING)
def test_invalid_request_of_a_fetch_that_renews_and_wants_something(client: Client, name: str) -> None:
    client.fetch()
    wrong = client.fetch((0, 0, RENEW), epoch=1, is_renew_ack=True, **{**NOTHING, name: 1})
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    right = client.fetch((0, 0, RENEW), epoch=1, is_renew_ack=True, **NOTHING)
    assert (partition_of(right).acknowledge_error_code, acquired(right)) == (ErrorCode.NONE, [])


def test_invalid_request_of_acknowledgements_in_a_fetch_that_opens_a_session(client: Client) -> None:
    assert client.fetch((0, 0, ACCEPT)).error_code == ErrorCode.INVALID_REQUEST


def test_share_session_not_found(client: Client) -> None:
    not_found = ErrorCode.SHARE_SESSION_NOT_FOUND
    assert client.fetch(epoch=1).error_code == not_found
    assert client.acknowledge((0, 0, ACCEPT), epoch=1).error_code == not_found


def test_invalid_share_session_epoch(client: Client) -> None:
    client.fetch()
    assert client.fetch(epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    for epoch in (0, 2):
        answer = client.acknowledge((0, 0, ACCEPT), epoch=epoch)
        assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


# --- refused for a partition ---


def test_invalid_record_state_of_a_record_that_is_done_with(client: Client) -> None:
    client.fetch()
    assert partition_of(client.acknowledge((3, 3, ACCEPT))).error_code == ErrorCode.NONE
    for answer in (client.acknowledge((3, 3, ACCEPT), epoch=2), client.fetch((3, 3, ACCEPT), epoch=3)):
        data = partition_of(answer)
        told = getattr(data, "acknowledge_error_code", data.error_code)
        assert told == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    "said", [((1, 0, ACCEPT),), ((10, 10, ACCEPT),), ((0, 0, 5),), ((0, 0, RENEW),), ((1, 1, ACCEPT), (0, 0, ACCEPT))]
)
def test_invalid_request_of_acknowledgements_of_a_wrong_form(client: Client, said: Any) -> None:
    client.fetch()
    told = [
        partition_of(client.acknowledge(*said)).error_code,
        partition_of(client.fetch(*said, epoch=2)).acknowledge_error_code,
    ]
    assert told == [ErrorCode.INVALID_REQUEST] * 2


def test_unknown_topic_id(client: Client) -> None:
    client.fetch()
    unknown = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches(((0, 0, ACCEPT),)))
    answer = client.acknowledge(topics=[AcknowledgeTopic(topic_id=UNKNOWN_ID, partitions=[unknown])])
    assert partition_of(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID


# --- answered ---


def test_records_are_acquired_accepted_and_released(client: Client) -> None:
    answer = client.fetch()
    assert acquired(answer) == [(0, 9, 1)]
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert partition_of(client.acknowledge((0, 4, ACCEPT), (5, 9, RELEASE))).error_code == ErrorCode.NONE
    assert acquired(client.fetch(epoch=2)) == [(5, 9, 2)]


def test_the_last_request_of_a_session_acknowledges_and_fetches_nothing(client: Client) -> None:
    client.fetch()
    answer = client.fetch((0, 9, REJECT), epoch=-1)
    assert (partition_of(answer).acknowledge_error_code, acquired(answer)) == (ErrorCode.NONE, [])
    assert len(client.house.shares.sessions) == 0
