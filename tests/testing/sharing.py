"""A member of a share group, and the configs of its group, over sockets and the broker's codecs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from types import TracebackType
from typing import Any

from purgatorio.client.share import ACCEPT, Acknowledgement, AcquiringSession, share_heartbeat
from purgatorio.client.wire import Wire, decoded, frame
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from purgatorio.protocol.messages.share_fetch import FINAL_EPOCH

RELEASE, REJECT = 2, 3
GROUP_RESOURCE = 32


def configure_group(bootstrap: str, group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group, by Kafka's names."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    wanted = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=wanted)
    with closing(Wire((host, int(port)))) as wire:
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [each.error_code for each in answer.responses] == [0], answer


class ShareMember:
    """Fetches from partition 0 of a topic.

    Args:
        leader: the address of its leader.
    """

    def __init__(self, leader: tuple[str, int], group: str, member_id: str, topic_id: bytes) -> None:
        self._wire = Wire(leader)
        self._session = AcquiringSession(group, member_id)
        self._key = topic_id, 0

    def __enter__(self) -> ShareMember:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._wire.close()

    def send_fetch(self, max_wait_ms: int = 500, max_records: int = 500, *, named: bool = True) -> None:
        """Send a share fetch, which names the partition or, in a session, need not."""
        self._session.named = {} if named else {self._key: None}
        request = self._session.fetch([self._key], {}, max_wait_ms=max_wait_ms, max_records=max_records)
        request.share_acquire_mode = 1
        self._send(request)

    def acquired(self) -> list[tuple[int, int, int]]:
        """Return what the answer to `send_fetch` gives: first offset, last offset, delivery count."""
        answer = self._answer(ApiKey.SHARE_FETCH)
        assert answer.error_code == 0, answer.error_message
        data = [data for topic in answer.responses for data in topic.partitions]
        assert all(each.error_code == 0 for each in data), data
        records = [record for each in data for record in each.acquired_records]
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in records]

    def refusal(self) -> int:
        """Return the error with which `send_fetch` was refused."""
        error_code: int = self._answer(ApiKey.SHARE_FETCH).error_code
        return error_code

    def fetch(self, max_wait_ms: int = 500, max_records: int = 500) -> list[tuple[int, int, int]]:
        """Acquire records."""
        self.send_fetch(max_wait_ms, max_records)
        return self.acquired()

    def acknowledge(self, first_offset: int, last_offset: int, kind: int = ACCEPT) -> int:
        """Acknowledge records; return the error code."""
        self.send_acknowledge(first_offset, last_offset, kind)
        return self.acknowledged()

    def send_acknowledge(self, first_offset: int, last_offset: int, kind: int = ACCEPT) -> None:
        """Send an acknowledgement of records."""
        self._send(self._session.acknowledge({self._key: [Acknowledgement(first_offset, last_offset, (kind,))]}))

    def acknowledged(self) -> int:
        """Return the error code of the answer to `send_acknowledge`."""
        answer = self._answer(ApiKey.SHARE_ACKNOWLEDGE)
        error_code: int = answer.error_code or answer.responses[0].partitions[0].error_code
        return error_code

    def close_session(self) -> None:
        """End the share session; the next fetch begins a new one."""
        self._session.epoch = FINAL_EPOCH
        assert self.fetch() == []
        self._session.begin_anew()

    def find_coordinator(self) -> None:
        """Ask for the coordinator until there is one: the first question has its topic created."""
        asked = FindCoordinatorRequest(coordinator_keys=[self._session.group])
        while self._wire.ask(asked).coordinators[0].error_code:
            pass

    def heartbeat(self, epoch: int, *topics: str) -> Any:
        """Join the group (epoch 0), or leave it (−1), at a leader that coordinates it too; return the answer."""
        return self._wire.ask(share_heartbeat(self._session.group, self._session.member_id, epoch, topics or None))

    def _send(self, request: Any) -> None:
        self._wire.socket.sendall(frame(request, client_id=self._session.member_id))
        self._session.went_on()

    def _answer(self, key: ApiKey) -> Any:
        return decoded(key, self._wire.receive())
