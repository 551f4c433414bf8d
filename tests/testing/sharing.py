"""A member of a share group, and the configs of its group, over sockets and the broker's codecs."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from struct import unpack
from types import TracebackType
from typing import Any

from purgatorio.protocol.api import decode_response, encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages import incremental_alter_configs, share_acknowledge, share_fetch
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP_RESOURCE = 32


def configure_group(bootstrap: str, group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group, by Kafka's names."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    wanted = [
        incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=wanted
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"".join(encode_request(key, 1, 7, "test", request)))
        answer: Any = decode_response(key, 1, _answer(connection))[1]
    assert [each.error_code for each in answer.responses] == [0], answer


def _answer(connection: socket.socket) -> bytes:
    """Read an answer without its size."""
    (size,) = unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "the broker has closed the connection"
        data += more
    return data


class ShareMember:
    """Fetches from partition 0 of a topic.

    Args:
        leader: the address of its leader.
    """

    def __init__(self, leader: tuple[str, int], group: str, member_id: str, topic_id: bytes) -> None:
        self._socket = socket.create_connection(leader)
        self._names: Any = {"group_id": group, "member_id": member_id}
        self._topic_id = topic_id
        self._epoch = 0

    def __enter__(self) -> ShareMember:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send_fetch(self, max_wait_ms: int = 500, max_records: int = 500, *, named: bool = True) -> None:
        """Send a share fetch, which names the partition or, in a session, need not."""
        partition = share_fetch.FetchPartition(partition_index=0)
        self._send(
            ApiKey.SHARE_FETCH,
            share_fetch.ShareFetchRequest(
                **self._names,
                share_session_epoch=self._epoch,
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_records=max_records,
                batch_size=max_records,
                share_acquire_mode=1,
                topics=[share_fetch.FetchTopic(topic_id=self._topic_id, partitions=[partition])] if named else [],
            ),
        )

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
        batch = share_acknowledge.AcknowledgementBatch(
            first_offset=first_offset, last_offset=last_offset, acknowledge_types=[kind]
        )
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        topic = share_acknowledge.AcknowledgeTopic(topic_id=self._topic_id, partitions=[partition])
        self._send(
            ApiKey.SHARE_ACKNOWLEDGE,
            share_acknowledge.ShareAcknowledgeRequest(**self._names, share_session_epoch=self._epoch, topics=[topic]),
        )

    def acknowledged(self) -> int:
        """Return the error code of the answer to `send_acknowledge`."""
        answer = self._answer(ApiKey.SHARE_ACKNOWLEDGE)
        error_code: int = answer.error_code or answer.responses[0].partitions[0].error_code
        return error_code

    def close_session(self) -> None:
        """End the share session; the next fetch begins a new one."""
        self._epoch = -1
        assert self.fetch() == []
        assert self._epoch == 0

    def find_coordinator(self) -> None:
        """Ask for the coordinator until there is one: the first question has its topic created."""
        asked = FindCoordinatorRequest(coordinator_keys=[str(self._names["group_id"])])
        while True:
            self._send(ApiKey.FIND_COORDINATOR, asked, 4)
            (found,) = self._answer(ApiKey.FIND_COORDINATOR, 4).coordinators
            if not found.error_code:
                return

    def heartbeat(self, epoch: int, *topics: str) -> Any:
        """Join the group (epoch 0), or leave it (−1), at a leader that coordinates it too; return the answer."""
        request = ShareGroupHeartbeatRequest(
            **self._names, member_epoch=epoch, subscribed_topic_names=list(topics) if topics else None
        )
        self._send(ApiKey.SHARE_GROUP_HEARTBEAT, request, 1)
        return self._answer(ApiKey.SHARE_GROUP_HEARTBEAT, 1)

    def _send(self, key: ApiKey, request: Any, version: int = 2) -> None:
        self._socket.sendall(b"".join(encode_request(key, version, 7, str(self._names["member_id"]), request)))
        self._epoch += key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)

    def _answer(self, key: ApiKey, version: int = 2) -> Any:
        return decode_response(key, version, _answer(self._socket))[1]
