"""The rule for requests that name very much: in parts, each in a turn of its own, and answered together."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api.parts import CUTS, PART_ENTRIES, cut_of, in_parts, parts_in
from purgatorio.broker.api.routes import APIS
from purgatorio.broker.routing.request import RequestContext, Route
from purgatorio.protocol.api import decode_request, decode_request_header
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.api.harness import context
from tests.broker.server.named import requests_that_name
from tests.broker.time.by_hand import HandListings
from tests.error_log import ErrorLog

ERROR_RESPONSES = {api.key: api.failed for api in APIS}
LONG = 2 * PART_ENTRIES + 1


class Answers:
    """What is answered."""

    def __init__(self) -> None:
        self.responses: list[Any] = []
        self.closed: list[str] = []

    def __call__(self, response: Any) -> None:
        self.responses.append(response)

    def nothing(self) -> None:
        self.responses.append(None)

    def close(self, reason: str) -> None:
        self.closed.append(reason)


class Handled:
    """An API of which each part is answered with `code`; the part at `fails_at` meets a bug."""

    def __init__(self, key: ApiKey, code: ErrorCode = ErrorCode.NONE, fails_at: int = -1) -> None:
        self.key = key
        self.parts: list[Any] = []
        self.replies: list[Any] = []
        self.waits = False
        self.code = code
        self.fails_at = fails_at
        self.listings = HandListings()
        self.answers = Answers()
        self.ctx = context(key, 1)

    def ask(self, request: Any, request_bytes: int = 100_000) -> None:
        route = Route(self._handle, 0, 99, ERROR_RESPONSES[self.key])
        ctx = RequestContext(self.ctx.session, "c", self.key, 1, 0, request_bytes)
        in_parts(self.listings)(self.key, route)(ctx, request, self.answers)

    def finish(self) -> int:
        """Take all steps, and return their number."""
        return len(list(self.listings.steps()))

    def _handle(self, ctx: RequestContext, request: Any, reply: Any) -> None:
        self.parts.append(request)
        self.replies.append(reply)
        if len(self.parts) - 1 == self.fails_at:
            raise ValueError("a bug")
        if not self.waits:
            reply(self.response(request))

    def response(self, request: Any) -> Any:
        return ERROR_RESPONSES[self.key](request, self.code)


def acls(count: int) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[AclCreation(resource_name=f"topic{number}") for number in range(count)])


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names])


@pytest.mark.parametrize(("count", "request_bytes"), [(PART_ENTRIES, 100_000), (0, 100_000), (1, 20)])
def test_what_is_not_long_reaches_the_handler_as_it_is(count: int, request_bytes: int) -> None:
    handled = Handled(ApiKey.CREATE_ACLS)
    request = acls(count)
    handled.ask(request, request_bytes)
    assert handled.parts[0] is request
    assert [len(each.results) for each in handled.answers.responses] == [count]


def test_an_api_that_is_not_cut_has_its_own_handler() -> None:
    route = Route(lambda ctx, request, reply: None, 0, 0, lambda request, code: None)
    assert in_parts(HandListings())(ApiKey.HEARTBEAT, route) is route.handler


def test_a_long_request_is_handled_in_parts_each_in_a_turn_of_its_own_and_answered_together() -> None:
    handled = Handled(ApiKey.CREATE_ACLS, ErrorCode.SECURITY_DISABLED)
    handled.ask(acls(LONG))
    assert not handled.parts
    handled.listings.step()
    assert not handled.parts  # this turn has cut the request
    assert handled.finish() == 3
    assert [len(part.creations) for part in handled.parts] == [PART_ENTRIES, PART_ENTRIES, 1]
    assert [each.resource_name for part in handled.parts for each in part.creations] == [
        f"topic{number}" for number in range(LONG)
    ]
    (response,) = handled.answers.responses
    assert [each.error_code for each in response.results] == [ErrorCode.SECURITY_DISABLED] * LONG


def test_parts_wait_side_by_side_and_are_answered_in_the_order_of_the_request() -> None:
    handled = Handled(ApiKey.CREATE_TOPICS)
    handled.waits = True
    names = [f"topic{number}" for number in range(LONG)]
    handled.ask(topics(*names))
    handled.finish()
    for reply, part in reversed(list(zip(handled.replies, handled.parts, strict=True))):
        assert not handled.answers.responses
        reply(handled.response(part))
    assert [each.name for each in handled.answers.responses[0].topics] == names


def test_what_is_named_twice_stays_in_one_part_which_the_handler_refuses() -> None:
    names = [f"topic{number}" for number in range(LONG)]
    parts = parts_in(cut_of(ApiKey.CREATE_TOPICS), topics(*names, "topic0"))
    assert [each.name for each in parts[0].topics].count("topic0") == 2
    assert sum(len(part.topics) for part in parts) == LONG + 1


def test_the_answers_for_a_topic_that_was_cut_are_joined() -> None:
    handled = Handled(ApiKey.DELETE_RECORDS)
    one = DeleteRecordsTopic(name="a", partitions=[DeleteRecordsPartition(partition_index=7)])
    many = [DeleteRecordsPartition(partition_index=number) for number in range(LONG)]
    handled.ask(DeleteRecordsRequest(topics=[one, DeleteRecordsTopic(name="b", partitions=many)]))
    handled.finish()
    assert [[topic.name for topic in part.topics] for part in handled.parts] == [["a", "b"], ["b"], ["b"]]
    (response,) = handled.answers.responses
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("a", 1), ("b", LONG)]
    assert [each.partition_index for each in response.topics[1].partitions] == list(range(LONG))
    assert len(many) == LONG, "the request itself stays as it is"


def test_a_bug_costs_the_part_that_met_it(error_log: ErrorLog) -> None:
    handled = Handled(ApiKey.CREATE_ACLS, fails_at=1)
    handled.ask(acls(LONG))
    handled.finish()
    codes = [each.error_code for each in handled.answers.responses[0].results]
    assert codes == [0] * PART_ENTRIES + [ErrorCode.UNKNOWN_SERVER_ERROR] * PART_ENTRIES + [0]
    error_log.expect("handler failed")


def test_an_error_of_the_whole_request_is_answered_alone() -> None:
    handled = Handled(ApiKey.LEAVE_GROUP, ErrorCode.NOT_COORDINATOR)
    handled.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=str(n)) for n in range(LONG)]))
    handled.finish()
    assert [each.error_code for each in handled.answers.responses] == [ErrorCode.NOT_COORDINATOR]


def test_a_handler_that_closes_the_connection_does_so_once() -> None:
    handled = Handled(ApiKey.CREATE_ACLS)
    handled.waits = True
    handled.ask(acls(LONG))
    handled.finish()
    handled.replies[0](handled.response(handled.parts[0]))
    for reply in handled.replies[1:]:
        reply.close("why")
    assert (handled.answers.closed, handled.answers.responses) == (["why"], [])


def test_no_part_is_begun_for_a_connection_that_is_gone() -> None:
    handled = Handled(ApiKey.CREATE_ACLS)
    handled.ctx.session.channel = Muted()
    handled.ask(acls(LONG))
    handled.listings.step()
    handled.listings.step()
    handled.ctx.session.lost()
    handled.finish()
    assert len(handled.parts) == 1


def test_the_connection_is_muted_until_the_last_part_is_begun() -> None:
    handled = Handled(ApiKey.CREATE_ACLS)
    handled.ctx.session.channel = channel = Muted()
    handled.ask(acls(LONG))
    assert channel.mutes == 1
    handled.finish()
    assert channel.mutes == 0


class Muted:
    """A channel that counts who holds it."""

    def __init__(self) -> None:
        self.mutes = 0

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        self.mutes -= 1

    def throttle(self) -> None:
        raise AssertionError

    def unthrottle(self, then: Any = None) -> None:
        raise AssertionError


@pytest.mark.parametrize("key", sorted(CUTS), ids=lambda key: key.name)
def test_the_parts_of_a_request_name_what_it_names(key: ApiKey) -> None:
    cut = cut_of(key)
    most = 0
    for asked in requests_that_name(key, 2 * LONG, newest_only=True):
        header, position = decode_request_header(asked.frame)
        request = decode_request(header, asked.frame, position)
        parts = parts_in(cut, request)
        most = max(most, len(parts))
        names = [name for part in parts for name in named(cut, part)]
        if cut.key is None:
            assert names == named(cut, request), asked.title
        else:
            assert sorted(names) == sorted(named(cut, request)), asked.title
    assert most > 1


def named(cut: Any, request: Any) -> list[str]:
    """Return what a request names, as texts."""
    found = []
    for part in cut.parts:
        for item in getattr(request, part.items) or ():
            inner = getattr(item, cut.inner.items) if cut.inner else []
            found += [f"{part.items} {part.identity(item)} {each!r}" for each in inner] or [f"{part.items} {item!r}"]
    return found
