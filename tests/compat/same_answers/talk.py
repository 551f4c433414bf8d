"""One side of a comparison: raw requests to a cluster, and its answers without what no two clusters have in common."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from purgatorio.client.wire import Wire, decoded, frame
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from purgatorio.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from purgatorio.protocol.messages.describe_cluster import DescribeClusterRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from purgatorio.protocol.messages.list_config_resources import ListConfigResourcesRequest
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.produce import ProduceRequest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts" / "bench"))


PATIENCE_SECONDS = 60
"""What comes is there within a second; a busy machine takes longer."""
NOT_READY = (14, 15, 16)
MEMBER_ID_REQUIRED = 79
BROKER_RESOURCE = 4
PRODUCE_BY_ID_VERSION = 13
UNKNOWN_ID = bytes(15) + b"\7"
LEFT_OUT = {
    "throttle_time_ms",
    "error_message",
    "acknowledge_error_message",
    "host",
    "port",
    "node_id",
    "heartbeat_interval_ms",
    "records",
    "batch_index_error_message",
    "cluster_id",
    "log_dir",
    "total_bytes",
    "usable_bytes",
}
"""Fields that may differ: addresses, texts, the heartbeat interval, which is shorter here during a rebalance, batches,
which contain times, and what a disk has."""
TIMES = {"transaction_start_time_ms", "last_timestamp_ms", "log_append_time_ms"}
EPOCHS = {"member_epoch", "group_epoch", "assignment_epoch"}
IDS = {"member_id", "leader"}

Answer = Any
Field = tuple[str, object]


class Talk:
    """Requests of one history to one cluster, all of one era.

    Args:
        bootstrap: the address of a broker.
        group: the group that the history is about; both clusters have one of this name.
        era: asks for this version of each API, or the nearest one that there is.
        versions: the versions of each API that Purgatorio has.
        topics: the names of topics by their ids.
        first_epoch: what the first member of a new consumer group has.

    Attributes:
        first_epoch: epochs are noted as their distance from it.
        fields: what was answered: the path of each field and its value, in order.
        steps: the API and the version of each step, by the beginning of its fields' paths.
    """

    left_out = frozenset(LEFT_OUT)
    """The fields that are not compared."""

    def __init__(
        self,
        bootstrap: tuple[str, int],
        group: str,
        era: int,
        versions: Callable[[int], range],
        topics: dict[bytes, str],
        first_epoch: int,
    ) -> None:
        self.group = group
        self.era = era
        self.topic_ids = {name: topic_id for topic_id, name in topics.items()}
        self.fields: list[Field] = []
        self.steps: dict[str, tuple[ApiKey, int]] = {}
        self._bootstrap = bootstrap
        self._versions = versions
        self.first_epoch = first_epoch
        self._topics = topics
        self._given = {""}
        self._made: dict[str, str] = {}
        self._producers: dict[int, str] = {}
        self._wires: list[Wire] = []
        self._asked: dict[ApiKey, int] = {}
        self._wire = self._connect(self._coordinator())

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()

    def version(self, api_key: int) -> int:
        """The version of an API in this era."""
        versions = self._versions(api_key)
        return min(max(self.era, versions[0]), versions[-1])

    def ask(self, step: str, request: Message, *, record: bool = True, version: int | None = None) -> Answer:
        """Send a request, wait for its answer, and note it under the step's name.

        A connection that is closed instead is noted, and another one is opened; the answer is None.
        """
        try:
            return self._start(self._wire, step, request, record, version)()
        except ConnectionResetError:
            name, api_key = type(request).__name__.removesuffix("Request"), api_key_of(request)
            self.steps[f"{name}, {step}"] = api_key, self._asked[api_key]
            self.fields.append((f"{name}, {step}: connection", "closed"))
            self._wire = self._connect(self._coordinator())
            return None

    def start(self, step: str, request: Message) -> Callable[[], Answer]:
        """Send a request on a connection of its own; the result waits for the answer and notes it."""
        return self._start(self._connect(self._coordinator()), step, request, record=True)

    def elsewhere(self, step: str, request: Message, version: int | None = None) -> Answer:
        """Ask the bootstrap broker, which need not be the group's coordinator."""
        return self._start(self._connect(self._bootstrap), step, request, record=True, version=version)()

    def until(
        self,
        step: str,
        request: Callable[[], Message],
        reached: Callable[[Answer], bool],
        *,
        version: int | None = None,
    ) -> Answer:
        """Ask again until the answer is as hoped, and note only that one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.ask(step, request(), record=False, version=version)
            if reached(answer) or time.monotonic() > deadline:
                self.note(step, answer)
                return answer
            time.sleep(0.05)

    def join(self, step: str, request: JoinGroupRequest) -> Answer:
        """Join, with a second request if the coordinator first wants the member to have an id."""
        answer = self.ask(step, request)
        if answer.error_code == MEMBER_ID_REQUIRED:
            answer = self.ask(f"{step} again", dataclasses.replace(request, member_id=answer.member_id))
        return answer

    def only_group(self, step: str, request: ListGroupsRequest) -> None:
        """List groups, and note only the history's own one."""
        answer = self.ask(step, request, record=False)
        answer.groups = [group for group in answer.groups if group.group_id == self.group]
        self.note(step, answer)

    def listed(self, step: str, request: ListConfigResourcesRequest) -> None:
        """List configured resources, and note only the brokers and those that are named after the history's group."""
        answer = self.ask(step, request, record=False)
        answer.config_resources = [
            each
            for each in answer.config_resources
            if self.group in each.resource_name or each.resource_type == BROKER_RESOURCE
        ]
        self.note(step, answer)

    def told_error(self, step: str, request: ApiVersionsRequest) -> None:
        """Ask for the APIs, and note only the error code."""
        answer = self.ask(step, request, record=False)
        self.note(step, ApiVersionsResponse(error_code=answer.error_code))

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        answer = self.ask("cluster", DescribeClusterRequest(), record=False)
        return str(answer.cluster_id)

    def new_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic that only this history uses, and wait until its partitions are led; its id is known then."""
        topic = f"{self.group}-{name}"
        given = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=given)
        created = self.ask("new topic", CreateTopicsRequest(topics=[new], timeout_ms=10_000), record=False, version=7)
        topic_id = bytes(created.topics[0].topic_id)
        self._topics[topic_id] = topic
        self.topic_ids[topic] = topic_id
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        ends = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)])

        def leads_all() -> bool:
            answer = self.ask("ends", ends, record=False, version=7)
            return not any(each.error_code for each in answer.topics[0].partitions)

        self.until_true(leads_all)
        return topic

    @staticmethod
    def until_true(reached: Callable[[], bool]) -> None:
        """Look again until this is true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def given(self, member_id: str) -> str:
        """A member id that the client makes, so that answers must repeat it."""
        self._given.add(member_id)
        return member_id

    def _connect(self, address: tuple[str, int]) -> Wire:
        self._wires.append(Wire(address))
        return self._wires[-1]

    def _coordinator(self) -> tuple[str, int]:
        wire = self._connect(self._bootstrap)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = wire.ask(FindCoordinatorRequest(key=self.group, key_type=0), 2)
            if found.error_code == 0:
                return found.host, found.port
            assert found.error_code in NOT_READY, found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def _start(
        self, wire: Wire, step: str, request: Message, record: bool, version: int | None = None
    ) -> Callable[[], Answer]:
        api_key = api_key_of(request)
        asked = self._asked[api_key] = self.version(api_key) if version is None else version
        if isinstance(request, ProduceRequest) and asked >= PRODUCE_BY_ID_VERSION:
            for topic in request.topic_data:
                topic.topic_id = self.topic_ids.get(topic.name, UNKNOWN_ID)
        wire.socket.sendall(frame(request, asked))

        def answer() -> Answer:
            response = decoded(api_key, wire.receive(), asked)
            if record:
                self.note(step, response, asked)
            return response

        return answer

    def note(self, step: str, response: Message, version: int | None = None) -> None:
        """Note an answer under the step's name; without a version it is to the last request of its API."""
        name = type(response).__name__.removesuffix("Response")
        api_key = api_key_of(response)
        self.steps[f"{name}, {step}"] = api_key, self._asked[api_key] if version is None else version
        self._learn(response)
        self._flatten(f"{name}, {step}", self._plain("", response))

    def _learn(self, response: Message) -> None:
        """Take the ids of the topics that an answer names."""
        for topic in getattr(response, "topics", None) or ():
            name, topic_id = getattr(topic, "name", None), bytes(getattr(topic, "topic_id", b""))
            if name and any(topic_id):
                self._topics[topic_id] = name
                self.topic_ids[name] = topic_id

    def ordered(self, values: list[Any]) -> list[Any]:
        """Return the values of a list in the order in which they are compared: any."""
        return sorted(values, key=repr)

    def _flatten(self, path: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                self._flatten(f"{path}: {name}" if ": " not in path else f"{path}.{name}", inner)
        elif isinstance(value, list):
            self.fields.append((f"{path}.length", len(value)))
            for number, inner in enumerate(value):
                self._flatten(f"{path}[{number}]", inner)
        else:
            self.fields.append((path, value))

    def _plain(self, name: str, value: Any) -> Any:
        """Dicts and sorted lists, with names for the ids that a cluster makes."""
        if dataclasses.is_dataclass(value) or isinstance(value, Message):
            names = [field for field in _field_names(value) if field not in self.left_out]
            return {field: self._plain(field, getattr(value, field)) for field in names}
        if name == "configs" and isinstance(value, list):
            return {each.name: self._plain("config", each) for each in value}
        if isinstance(value, list):
            return self.ordered([self._plain(name, each) for each in value])
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._topics.get(bytes(value), bytes(value).hex())
        if name in TIMES and value >= 0:
            return "<time>"
        if name == "session_id" and value > 0:
            return "<session>"
        if name == "producer_id" and value >= 0:
            return self._producers.setdefault(value, f"<producer {len(self._producers) + 1}>")
        if name in IDS and isinstance(value, str) and value not in self._given:
            return self._made.setdefault(value, f"<id {len(self._made) + 1}>")
        if name in EPOCHS and value > 0:
            return f"first + {value - self.first_epoch}"
        return value


def _field_names(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value)]


def api_key_of(message: Message) -> ApiKey:
    """The API that a request or a response belongs to, by its class's name."""
    name = type(message).__name__.removesuffix("Request").removesuffix("Response")
    return ApiKey["".join(f"_{letter}" if letter.isupper() else letter for letter in name)[1:].upper()]


def subscription(*topics: str) -> bytes:
    """A consumer's metadata in version 0: its topics, and no user data."""
    names = b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics)
    return bytes(2) + len(topics).to_bytes(4) + names + (-1).to_bytes(4, signed=True)


def join_request(group: str, **changes: Any) -> JoinGroupRequest:
    """A right request of a new consumer, but for the changes."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("letters"))],
    )
    return dataclasses.replace(request, **changes)
