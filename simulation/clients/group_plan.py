"""What a simulated consumer group is, and what its clients share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.simulation.clients.clients import Client
from purgatorio.simulation.clients.consumers import Reader
from purgatorio.simulation.clients.transaction_plan import TransactionSurroundings

SESSION_TIMEOUT_MS: Final = 2_000
REBALANCE_TIMEOUT_MS: Final = 2_500

Protocol = Literal["classic", "consumer", "mixed"]
"""The protocol of a group's members: that of JoinGroup, or that of ConsumerGroupHeartbeat (KIP-848), or both."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One consumer group, which consumes all topics.

    Attributes:
        protocol: how its members join.
        members: the number of its members.
        static: whether they are static members (KIP-345).
        transforms: whether they write what they read to another topic, in transactions that commit their offsets.
    """

    group_id: str
    protocol: Protocol = "classic"
    members: int = 2
    static: bool = False
    transforms: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the clients of one group share.

    Attributes:
        partitions: what the group consumes.
        topic_ids: the ids of its topics by name.
        reader: how members read.
        new_client: makes a client of a name.
        is_restless: whether members may leave, or be silent: not once the faults are over.
        transactions: how members write, if they do.
    """

    plan: GroupPlan
    partitions: tuple[TopicPartition, ...]
    topic_ids: dict[str, bytes]
    reader: Reader
    new_client: Callable[[str], Client]
    is_restless: Callable[[], bool]
    transactions: TransactionSurroundings | None = None
