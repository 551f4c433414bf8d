"""A member of a share group over a plain socket, for brokers of ours and of Apache Kafka alike."""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

from groups import coordinator_of
from purgatorio.client.group import assigned
from purgatorio.client.link import Address
from purgatorio.client.share import Acknowledgement, AcquiringSession, share_heartbeat
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

ALTER_CONFIGS_VERSION = 1
GROUP_RESOURCE = 32
RECORD_LIMIT = 1
RETRY_SECONDS = 0.005


class Acquired(NamedTuple):
    """Records that the member has."""

    first_offset: int
    last_offset: int

    @property
    def count(self) -> int:
        """How many they are."""
        return self.last_offset - self.first_offset + 1


def configure_group(address: Address, group_id: str, **configs: object) -> None:
    """Let a group begin at the earliest record, and set further configs of it, by Kafka's names with underscores."""
    named = {"share.auto.offset.reset": "earliest", **{name.replace("_", "."): each for name, each in configs.items()}}
    changes = [AlterableConfig(name=name, config_operation=0, value=str(value)) for name, value in named.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=changes)
    with closing(Wire(address)) as wire:
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), ALTER_CONFIGS_VERSION)
        assert not answer.responses[0].error_code, answer


class ShareMember:
    """One member with one connection to the leader of a topic's only partition.

    Attributes:
        topic_id: known when it has joined.
    """

    def __init__(self, bootstrap: Address, leader: Address, group_id: str, member_id: str) -> None:
        self.topic_id = b""
        self._session = AcquiringSession(group_id, member_id)
        self._bootstrap = bootstrap
        self._wire = Wire(leader)

    def close(self) -> None:
        """Close the connection, which ends the share session."""
        self._wire.close()

    def join(self, topic: str) -> None:
        """Beat until the partition is assigned, as often as the coordinator asks for."""
        group_id, member_id = self._session.group, self._session.member_id
        _, coordinator = coordinator_of(self._bootstrap, group_id)
        deadline, epoch = time.perf_counter() + TIMEOUT_SECONDS, 0
        with closing(Wire(coordinator)) as wire:
            while True:
                answer = wire.ask(share_heartbeat(group_id, member_id, epoch, None if epoch else [topic]))
                if own := assigned(answer):
                    self.topic_id = own[0][0]
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
        key = self.topic_id, 0
        acknowledged = {key: _accepting(accepted)} if accepted else {}
        request = self._session.fetch([key], acknowledged, max_wait_ms=max_wait_ms, max_records=max_records)
        request.share_acquire_mode = RECORD_LIMIT
        answer = self._wire.ask(request)
        assert not answer.error_code, answer
        self._session.went_on()
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
        answer = self._wire.ask(self._session.acknowledge({(self.topic_id, 0): _accepting(acquired)}))
        self._session.went_on()
        code: int = answer.error_code or answer.responses[0].partitions[0].error_code
        return code


def _accepting(acquired: list[Acquired]) -> list[Acknowledgement]:
    return [Acknowledgement(*each) for each in acquired]
