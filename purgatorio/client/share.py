"""Share groups (KIP-932): a member's heartbeats, and its session with a leader, by which it acquires records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from purgatorio.client.group import Key
from purgatorio.late import dataclass
from purgatorio.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from purgatorio.protocol.messages.share_fetch import (
    INITIAL_EPOCH,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT: Final = 1
MAX_BYTES: Final = 1024 * 1024
MAX_EPOCH: Final = 2**31 - 1


class Acknowledgement(NamedTuple):
    """An acknowledgement of the records from the first to the last offset: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...] = (ACCEPT,)


def share_heartbeat(
    group: str, member_id: str, epoch: int, topics: Sequence[str] | None = None
) -> ShareGroupHeartbeatRequest:
    """Build a heartbeat; that which joins gives the topics."""
    return ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=None if topics is None else [*topics],
    )


@dataclass(slots=True)
class AcquiringSession:
    """A member's share session with one leader.

    Attributes:
        epoch: that of the next request; INITIAL_EPOCH opens the session, FINAL_EPOCH ends it.
        named: the partitions of the session.
    """

    group: str
    member_id: str
    epoch: int = INITIAL_EPOCH
    named: dict[Key, None] = field(default_factory=dict)

    def begin_anew(self) -> None:
        """Open another session with the next request."""
        self.epoch = INITIAL_EPOCH
        self.named.clear()

    def went_on(self) -> None:
        """Take note of an answer without an error."""
        self.epoch = self.epoch % MAX_EPOCH + 1

    def fetch(
        self,
        wanted: Iterable[Key],
        acknowledged: Mapping[Key, Sequence[Acknowledgement]],
        *,
        max_wait_ms: int,
        max_records: int,
        batch_size: int | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> ShareFetchRequest:
        """Build a request that acknowledges records, then acquires others of the partitions that are wanted now."""
        wanted = dict.fromkeys(wanted)
        forgotten = [key for key in self.named if key not in wanted]
        # What is acknowledged counts as added, if the member does not forget it.
        touched = dict.fromkeys((*wanted, *acknowledged))
        topics = [
            FetchTopic(
                topic_id=key[0],
                partitions=[
                    FetchPartition(partition_index=key[1], acknowledgement_batches=_batches(acknowledged.get(key, ())))
                ],
            )
            for key in touched
            if key in acknowledged or key not in self.named
        ]
        self.named = dict.fromkeys(key for key in touched if key not in forgotten)
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=max_records if batch_size is None else batch_size,
            topics=topics,
            forgotten_topics_data=[ForgottenTopic(topic_id=key[0], partitions=[key[1]]) for key in forgotten],
        )

    def acknowledge(self, acknowledged: Mapping[Key, Sequence[Acknowledgement]]) -> ShareAcknowledgeRequest:
        """Build a request that only acknowledges records."""
        return ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            topics=[
                AcknowledgeTopic(
                    topic_id=key[0],
                    partitions=[AcknowledgePartition(partition_index=key[1], acknowledgement_batches=_batches(each))],
                )
                for key, each in acknowledged.items()
            ],
        )


def _batches(acknowledged: Sequence[Acknowledgement]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[*types])
        for first, last, types in sorted(acknowledged)
    ]
