"""Any sequence of requests in sessions tells a client what full requests would have told it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import FetchContext
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchResponse
from tests.broker.api.harness import Replies
from tests.broker.api.test_fetch_sessions import Client, told
from tests.broker.replica.harness import Harness, batch, topic

PARTITIONS = 4
NAMES = [f"orders-{index}" for index in range(PARTITIONS)]
ONE_BATCH = len(batch(b"value"))

partitions = st.integers(0, PARTITIONS - 1)
events = st.one_of(
    st.tuples(st.just("produce"), partitions),
    st.tuples(st.just("follow"), partitions),
    st.tuples(st.just("delete"), partitions),
    st.tuples(st.just("truncate"), partitions),
    st.tuples(st.just("elect"), partitions),
    st.tuples(st.just("resign"), partitions),
    st.tuples(st.just("lease"), st.booleans()),
    st.tuples(st.just("add"), partitions),
    st.tuples(st.just("forget"), partitions),
    st.tuples(st.just("evict"), st.just(0)),
)
steps = st.lists(st.tuples(events, st.sampled_from(["", "fetch", "fetch", "stay", "wait", "wait long"])), max_size=40)
"""Events, and what the client does next; it may wait while the event comes."""


@dataclass
class View:
    """What a client knows of one partition, and from where it reads."""

    offset: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    error_code: int = 0
    altered: bool = True


@dataclass
class World:
    """A broker with an incremental client whose every answer is compared with that to a full request."""

    replica: int
    broker: Harness = field(default_factory=Harness)
    views: dict[int, View] = field(default_factory=dict)
    forgotten: dict[int, View] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    leaders: list[int] = field(default_factory=lambda: [1] * PARTITIONS)
    versions: int = 0

    def __post_init__(self) -> None:
        self.apply()
        self.client = self.new_client()

    def new_client(self) -> Client:
        return Client(self.broker, version=16 if self.replica >= 0 else 12, replica=self.replica)

    def apply(self) -> None:
        self.versions += 1
        whole = topic(partitions=PARTITIONS, isr=(1, 3) if self.replica < 0 else (1,))
        rows = tuple(
            type(state)(leader, epoch, state.replicas, state.isr, self.versions)
            for state, leader, epoch in zip(whole.partitions, self.leaders, self.epochs, strict=True)
        )
        self.broker.set_topics(type(whole)(whole.name, whole.topic_id, rows, {"segment.bytes": str(3 * ONE_BATCH)}))

    def partition(self, index: int) -> Any:
        return self.broker.partition(TopicPartition("orders", index))

    def step(self, event: tuple[str, int], then: str) -> None:
        """Let an event happen, and the client fetch."""
        kind, value = event
        if then.startswith("wait") and kind not in ("add", "forget", "evict"):
            self.wait(4 if then == "wait long" else 1, lambda: getattr(self, kind)(value))
            return
        getattr(self, kind)(value)
        check_parked(self.broker)
        if then:
            self.take(self.ask(), reads=then != "stay")

    # --- what happens at the broker ---

    def produce(self, index: int) -> None:
        self.broker.produce(TopicPartition("orders", index), acks=1)

    def follow(self, index: int) -> None:
        end = self.partition(index).log.log_end_offset
        self.broker.fetch((TopicPartition("orders", index), end), replica_id=3, max_wait_ms=0)

    def delete(self, index: int) -> None:
        self.broker.replicas.delete_records([(TopicPartition("orders", index), -1)], timeout_ms=0, done=lambda _: None)

    def truncate(self, index: int) -> None:
        partition = self.partition(index)
        self.broker.replicas.truncate_to(partition, max(0, partition.log.log_end_offset - 1))

    def elect(self, index: int) -> None:
        self.leaders[index], self.epochs[index] = 1, self.epochs[index] + 1
        self.apply()

    def resign(self, index: int) -> None:
        self.leaders[index], self.epochs[index] = 2, self.epochs[index] + 1
        self.apply()

    def lease(self, held: int) -> None:
        self.broker.may_lead = bool(held)
        if held:
            self.broker.replicas.lease_resumed()
        else:
            self.broker.replicas.lease_lost()

    # --- what the client does ---

    def add(self, index: int) -> None:
        # The broker does not notice that a partition was forgotten and added between two requests.
        view = self.views.setdefault(index, self.forgotten.pop(index, View()))
        view.altered = True

    def forget(self, index: int) -> None:
        if index in self.views:
            self.forgotten[index] = self.views.pop(index)

    def evict(self, _: int) -> None:
        session = self.broker.fetch_sessions.find(self.client.session_id)
        if session is not None:
            self.broker.fetch_sessions.close(session)

    def wait(self, batches: int, meanwhile: Callable[[], None]) -> None:
        """Let a fetch wait while something happens, then for records in each partition, then for its deadline."""
        replies = self.send(max_wait_ms=500, min_bytes=batches * ONE_BATCH)
        causes = [meanwhile, *(partial(self.produce, index) for index in range(PARTITIONS))]
        for cause in [*causes, lambda: self.broker.advance_ms(501)]:
            check_parked(self.broker)
            if replies.said:
                break
            cause()
        self.take(replies.only, reads=True)

    def ask(self) -> FetchResponse:
        response: FetchResponse = self.send(max_wait_ms=0, min_bytes=1).only
        return response

    def send(self, *, max_wait_ms: int, min_bytes: int) -> Replies:
        in_session = self.client.session_id != 0
        wanted = [
            ("orders", index, view.offset) for index, view in self.views.items() if view.altered or not in_session
        ]
        forget = tuple(("orders", index) for index in self.forgotten) if in_session else ()
        self.forgotten.clear()
        for view in self.views.values():
            view.altered = False
        return self.client.send(*wanted, forget=forget, max_wait_ms=max_wait_ms, min_bytes=min_bytes)

    def take(self, response: FetchResponse, reads: bool) -> None:
        client = self.client
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            client.session_id = client.epoch = 0
            return
        assert response.error_code == 0
        is_full = client.epoch == 0
        client.session_id = response.session_id
        client.epoch = client.epoch + 1 if response.session_id else 0
        answered = {data.partition_index: data for t in response.responses for data in t.partitions}
        if is_full:
            assert list(answered) == list(self.views)
        assert answered.keys() <= self.views.keys()
        for index, data in answered.items():
            view = self.views[index]
            view.error_code = data.error_code
            view.high_watermark, view.log_start_offset = data.high_watermark, data.log_start_offset
            count = len(data.records or [])
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                view.offset, view.altered = self.partition(index).log.log_start_offset, True
            elif count and reads:
                view.offset, view.altered = view.offset + count, True
            self.compare(index, view, count, reads)
        for index in self.views.keys() - answered.keys():
            self.compare(index, self.views[index], 0, reads)

    def compare(self, index: int, view: View, count: int, reads: bool) -> None:
        """Compare what the client knows with what a full request says now: nothing has happened since."""
        offset = view.offset - count if reads else view.offset
        if view.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return
        (data,) = told(self.new_client().send(("orders", index, offset), session=(0, -1)).only).values()
        assert (view.error_code, view.high_watermark, view.log_start_offset) == (
            data.error_code,
            data.high_watermark,
            data.log_start_offset,
        )
        assert count == len(data.records or [])


def check_parked(broker: Harness) -> None:
    """Compare the sums of each parked fetch with a count of everything."""
    for operation in broker.fetch_purgatory._parked.values():
        context: FetchContext = operation._context
        assert not operation.could_complete(), "it should have been answered"
        assert context.available_bytes == sum(
            max(0, broker.replicas.reader.look(context.params, fetch)) for fetch in context.fetches
        )


@pytest.mark.parametrize("replica", [-1, 2])
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(history=steps)
def test_a_session_tells_what_full_requests_tell(replica: int, history: list[tuple[tuple[str, int], str]]) -> None:
    world = World(replica)
    for event, then in [(("add", 0), ""), (("add", 1), "fetch"), *history, (("produce", 0), "fetch")]:
        world.step(event, then)
    for session in world.broker.fetch_sessions._sessions.values():
        assert isinstance(session, FetchSession)
        assert session.available_bytes == sum(fetch.available_bytes for fetch in session.fetches)
