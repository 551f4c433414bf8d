"""Reads the cluster's brokers, and the leader and replicas of each partition, from the metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from purgatorio.admin.operations.control.cluster_control import ClusterControl, KnownBroker
from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.metadata.controller import ElectionResult
from purgatorio.broker.metadata.image import NO_LEADER, NO_LEASE, ClusterImage, PartitionState
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.routing.request import is_of_broker


def read_members(cluster: BrokerCluster, control: ClusterControl) -> list[Answer]:
    """Return all brokers, running or not."""
    network = cluster.network
    running = {broker.broker_id: broker for broker in cluster.brokers}
    image = control.image
    return [
        read_member(
            member,
            running.get(member.broker_id),
            image,
            paused=member.broker_id in network.paused,
            cut_off_from=network.cut_off_from(member.broker_id),
        )
        for member in control.members
    ]


def read_member(
    member: KnownBroker, broker: Broker | None, image: ClusterImage, *, paused: bool, cut_off_from: Sequence[int] = ()
) -> Answer:
    """Return one broker.

    `host` and `port` of a broker that does not run are its last ones ("" and 0 if it never ran). `registered`,
    `broker_epoch` (-1: none), `fenced` (its lease ran out) and the lease's id are from the metadata; the lease is
    `held` if it lasts by the broker's own reckoning. `memory` is in bytes: what the broker may take (memory.bytes), and
    what its logs, requests and answers take; None while it does not run. A supervisor adds `process`: its id (None: it
    is on a host of its own), and what is wrong with it.
    """
    host, port = member.address or ("", 0)
    registration = image.brokers.get(member.broker_id)
    return {
        "id": member.broker_id,
        "state": member.state,
        "host": host,
        "port": port,
        "registered": registration is not None,
        "controller": image.controller_id == member.broker_id,
        "broker_epoch": -1 if registration is None else registration.broker_epoch,
        "fenced": registration is not None and registration.fenced,
        "lease": {
            "id": NO_LEASE if registration is None else registration.lease_id,
            "held": broker is not None and broker.lifecycle.has_lease(),
        },
        "memory": None if broker is None else broker.memory_use._asdict(),
        "paused": paused,
        "cut_off_from": list(cut_off_from),
    }


def read_placements(image: ClusterImage, topic: str | None, limit: int) -> tuple[list[Answer], int, int]:
    """Return up to `limit` partitions of one topic or all, by name, those of internal topics last.

    Also returns the number of all, and the number of offline ones.
    """
    states = [
        (name, index, state)
        for name, found in sorted(image.topics.items(), key=lambda item: (is_internal(item[0]), item[0]))
        if topic in (None, name)
        for index, state in enumerate(found.partitions)
    ]
    offline = sum(state.leader == NO_LEADER for _, _, state in states)
    return [read_placement(*row) for row in islice(states, limit)], len(states), offline


def read_placement(topic: str, partition: int, state: PartitionState) -> Answer:
    """Return the leader (-1: the partition is `offline`) and replicas of a partition, in the metadata.

    `elr`: the eligible leader replicas (KIP-966). `internal`: its topic is the brokers' own. `reassignment`: the
    replicas that one adds and removes; None if there is none.
    """
    reassigned = bool(state.adding or state.removing)
    return {
        "topic": topic,
        "partition": partition,
        "internal": is_internal(topic),
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "offline": state.leader == NO_LEADER,
        "replicas": list(state.replicas),
        "isr": list(state.isr_ids),
        "elr": list(state.elr_ids),
        "reassignment": {"adding": list(state.adding), "removing": list(state.removing)} if reassigned else None,
    }


def read_elected(result: ElectionResult) -> Answer:
    """Return the result of an election: `error` is the name of a Kafka error code, NONE if `leader` was elected."""
    state = result.state
    return {
        "topic": result.topic,
        "partition": result.partition,
        "error": result.error.name,
        "message": result.message or "",
        "leader": -1 if state is None else state.leader,
        "leader_epoch": -1 if state is None else state.leader_epoch,
    }


def connected_clients(brokers: Iterable[Broker]) -> list[str]:
    """Return the client ids that are connected; a connection without a client id yet is named by its address.

    A client that has closed its end is not, though a request that it left be parked: it may be gone.
    """
    found = {
        each.client_id or f"a connection from {each.peer}"
        for broker in brokers
        for listener in broker.listeners.values()
        for each in listener.connections()
        if not each.has_ended
    }
    return sorted(name for name in found if not is_of_broker(name))


def read_connections(brokers: Iterable[Broker], limit: int) -> Iterator[Answer]:
    """Yield connections, oldest first at each listener, and at least `limit` if there are so many.

    `in_flight` requests are being worked on, `waiting` ones were received. A client that `has_ended` has closed
    its end, and gets the answers to what it has sent.
    """
    for broker in brokers:
        for listener in broker.listeners.values():
            for each in listener.connections(limit):
                yield {
                    "broker": broker.broker_id,
                    "id": each.connection_id,
                    "listener": each.listener,
                    "peer": each.peer,
                    "client": each.client_id or "",
                    "principal": each.principal,
                    "age_ms": each.age_ms,
                    "in_flight": each.in_flight,
                    "waiting": each.waiting,
                    "has_ended": each.has_ended,
                    "bytes_in": each.bytes_in,
                    "bytes_out": each.bytes_out,
                }
