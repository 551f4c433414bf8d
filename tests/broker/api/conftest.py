"""Fixtures shared by the tests of the administrative APIs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.dynamic import dynamic_keys, is_fixed, type_of
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.metadata.controller import (
    NewTopic,
    TopicSettings,
    create_topics,
    fence_broker,
    register_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.delayed_decision import MetadataPurgatories
from purgatorio.broker.metadata.embedded import EmbeddedStore, EmbeddedView
from purgatorio.broker.routing.request import RequestContext, Session
from purgatorio.protocol.api import (
    APIS,
    Message,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from purgatorio.purgatory import ActionQueue, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.time.by_hand import HandListings
from tests.endpoints import plaintext


@dataclass(frozen=True)
class Setting:
    """A broker config, as `purgatorio.broker.config` lists it."""

    value: str | None
    is_default: bool
    type: int
    doc: str


BROKER_CONFIGS = {
    "broker.id": Setting("1", False, 3, "The broker's id."),
    "log.retention.ms": Setting("5000", False, 5, "Age at which a segment may be deleted."),
    "log.segment.bytes": Setting("16384", True, 3, "Size of a segment."),
}


class RecordingReply:
    """Records the handler's response; fails the test if there are two."""

    def __init__(self) -> None:
        self.responses: list[Any] = []

    def __call__(self, response: Any) -> None:
        assert not self.responses, "answered twice"
        self.responses.append(response)

    def nothing(self) -> None:
        raise AssertionError("the handler sent nothing")

    def close(self, reason: str) -> None:
        raise AssertionError(f"the handler closed the connection: {reason}")


class FrozenView:
    """A broker's access to the metadata store, with an image that the test sets; changes are submitted as usual."""

    def __init__(self, store: EmbeddedView) -> None:
        self.submit = store.submit
        self.image = store.image


class Cluster:
    """Three brokers that share a metadata store; requests go to broker 1, encoded and decoded."""

    def __init__(self, turns: Any) -> None:
        self.turns = turns
        self.clock = ManualClock()
        self.store = EmbeddedStore("test-cluster", turns.call_soon, self.clock)
        self.view = self.store.open()
        self.other_view = self.store.open()
        for broker_id in (1, 2, 3):
            self.change(
                lambda image, id=broker_id: register_broker(
                    image,
                    id,
                    plaintext(f"host-{id}", 9000 + id),
                    f"rack-{id}",
                    lease_id=20 + id,
                    settings=TopicSettings(),
                )
            )
        self.timer = Timer(self.clock.now_ms)
        actions = ActionQueue()
        purgatories = MetadataPurgatories(
            Purgatory("topic", self.timer, actions=actions),
            Purgatory("ElectLeader", self.timer, actions=actions),
            self.view.image,
        )
        self.view.watch(purgatories.image_changed)
        self.admin = AdminContext(
            broker_id=1,
            store=self.view,
            rng=random.Random(7),
            purgatories=purgatories,
            topics=TopicSettings(
                num_partitions=2, replication_factor=3, log=LogConfig(retention_ms=5000, segment_bytes=16384)
            ),
            broker_configs=dict(BROKER_CONFIGS),
            dynamic_keys=dynamic_keys(),
            type_of=type_of,
            is_fixed=is_fixed,
            group_keys=group_keys(BrokerConfig(broker_id=1)),
            topic_synonyms={"retention.ms": "log.retention.ms", "segment.bytes": "log.segment.bytes"},
            listings=HandListings(),
        )

    @property
    def image(self) -> Any:
        return self.view.image

    def change(self, decide: Any) -> Any:
        """Change the image, and deliver it to every broker."""
        results: list[Any] = []
        self.other_view.submit(decide, results.append)
        self.turns.run()
        return results[0]

    def create(self, name: str, partitions: int = 1, factor: int = 3, **configs: str) -> Any:
        """Create a topic; configs are named with underscores."""
        new = NewTopic(
            name, partitions, factor, configs={key.replace("_", "."): value for key, value in configs.items()}
        )
        settings, rng = self.admin.topics, self.admin.rng
        (result,) = self.change(lambda image: create_topics(image, [new], settings=settings, rng=rng))
        assert result.topic is not None, result.message
        return result.topic

    def stop(self, broker_id: int) -> None:
        """Unregister a broker."""
        epoch = self.image.brokers[broker_id].broker_epoch
        self.change(lambda image: unregister_broker(image, broker_id, epoch, settings=TopicSettings()))

    def fence(self, broker_id: int) -> None:
        """Fence a broker, as if its lease had expired; its incarnation goes on."""
        lease_id = self.image.brokers[broker_id].lease_id
        self.change(lambda image: fence_broker(image, lease_id, settings=TopicSettings()))

    def see_only(self, image: Any) -> None:
        """Show broker 1 this image from now on, in place of the committed one."""
        store: Any = FrozenView(self.view)
        store.image = image
        self.admin = replace(self.admin, store=store)

    def send(self, api: ModuleType, version: int, request: Message) -> RecordingReply:
        """Encode and decode a request in this version, and call its handler."""
        api_key = next(key for key, known in APIS.items() if known.request is type(request))
        frame = b"".join(encode_request(api_key, version, 7, "test", request))[4:]
        header, position = decode_request_header(frame)
        session = Session(connection_id="1", listener="PLAINTEXT", host="127.0.0.1", peer="127.0.0.1:5")
        context = RequestContext(session, "test", api_key, version, 0)
        reply = RecordingReply()
        api.handle(self.admin, context, decode_request(header, frame, position), reply)
        return reply

    def pass_ms(self, delta_ms: int) -> None:
        """Advance the time, without a delivery from the metadata store."""
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())

    def ask(self, api: ModuleType, version: int, request: Message) -> Any:
        """Send a request and return the response as the client decodes it."""
        reply = self.send(api, version, request)
        self.turns.run()
        (response,) = reply.responses
        return self.travel(version, response)

    def travel(self, version: int, response: Message) -> Any:
        """Encode and decode a response."""
        api_key = next(key for key, known in APIS.items() if known.response is type(response))
        _, seen = decode_response(api_key, version, b"".join(encode_response(api_key, version, 7, response))[4:])
        return seen


@pytest.fixture
def cluster(turns: Any) -> Cluster:
    return Cluster(turns)
