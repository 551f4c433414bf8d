"""A member of a share group over a plain socket, for brokers of ours and of Apache Kafka alike."""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

from groups import coordinator_of
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from purgatorio.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from purgatorio.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from wire import TIMEOUT_SECONDS, Wire

HEARTBEAT_VERSION = 1
SHARE_VERSION = 2
ALTER_CONFIGS_VERSION = 1
GROUP_RESOURCE = 32
RECORD_LIMIT = 1
ACCEPT = 1
RETRY_SECONDS = 0.005


class Acquired(NamedTuple):
    """Records that the member has."""

    first_offset: int
    last_offset: int

    @property
    def count(self) -> int:
        """How many they are."""
        return self.last_offset - self.first_offset + 1


def configure_group(address: tuple[str, int], group_id: str, **configs: object) -> None:
    """Let a group begin at the earliest record, and set further configs of it, by Kafka's names with underscores."""
    named = {"share.auto.offset.reset": "earliest", **{name.replace("_", "."): each for name, each in configs.items()}}
    changes = [AlterableConfig(name=name, config_operation=0, value=str(value)) for name, value in named.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=changes)
    with closing(Wire(address)) as wire:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS_VERSION, request)
        assert not answer.responses[0].error_code, answer


class ShareMember:
    """One member with one connection to the leader of a topic's only partition.

    Attributes:
        topic_id: known when it has joined.
    """

    def __init__(self, bootstrap: tuple[str, int], leader: tuple[str, int], group_id: str, member_id: str) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topic_id = b""
        self._epoch = 0
        self._bootstrap = bootstrap
        self._wire = Wire(leader)

    def close(self) -> None:
        """Close the connection, which ends the share session."""
        self._wire.close()

    def join(self, topic: str) -> None:
        """Beat until the partition is assigned, as often as the coordinator asks for."""
        found = coordinator_of(self._bootstrap, self.group_id)
        deadline, epoch = time.perf_counter() + TIMEOUT_SECONDS, 0
        with closing(Wire((found.host, found.port))) as wire:
            while True:
                request = ShareGroupHeartbeatRequest(
                    group_id=self.group_id,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    subscribed_topic_names=[topic] if epoch == 0 else None,
                )
                answer = wire.ask(ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    self.topic_id = bytes(answer.assignment.topic_partitions[0].topic_id)
                    return
                assert time.perf_counter() < deadline, answer
                if answer.error_code:  # the coordinator is being made
                    time.sleep(RETRY_SECONDS)
                else:
                    epoch = answer.member_epoch
                    time.sleep(answer.heartbeat_interval_ms / 1000)

    def fetch(
        self, accepted: list[Acquired] | None = None, *, max_records: int = 1, max_wait_ms: int = 10_000
    ) -> list[Acquired]:
        """Accept records, and acquire others, at most so many; the first fetch opens the session."""
        batches = _batches(accepted or [])
        partition = FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1024 * 1024,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=RECORD_LIMIT,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[partition])] if batches or not self._epoch else [],
        )
        answer = self._wire.ask(ApiKey.SHARE_FETCH, SHARE_VERSION, request)
        assert not answer.error_code, answer
        self._epoch += 1
        acquired = []
        for topic in answer.responses:
            for each in topic.partitions:
                assert not each.acknowledge_error_code, each
                acquired += [Acquired(a.first_offset, a.last_offset) for a in each.acquired_records]
        return acquired

    def fetch_some(self, **limits: int) -> list[Acquired]:
        """Fetch until there is something: a new share partition is loaded first, and answers nothing or an error."""
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        while not (acquired := self.fetch(**limits)):  # type: ignore[arg-type]
            assert time.perf_counter() < deadline, "no record came"
        return acquired

    def accept(self, acquired: list[Acquired]) -> int:
        """Accept records; returns the error code."""
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=_batches(acquired))
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        answer = self._wire.ask(ApiKey.SHARE_ACKNOWLEDGE, SHARE_VERSION, request)
        self._epoch += 1
        code: int = answer.error_code or answer.responses[0].partitions[0].error_code
        return code


def _batches(acquired: list[Acquired]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=[ACCEPT])
        for each in acquired
    ]
