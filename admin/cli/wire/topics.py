"""Topics over Kafka's protocol: list, create, describe, delete, and add partitions."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from purgatorio.admin.cli.command import Answer
from purgatorio.admin.cli.wire.asking import BATCH, Client, check_topic, explained, in_batches, near_topic, refused
from purgatorio.admin.cli.wire.configs import TOPIC, describe_configs
from purgatorio.client.client import FAILURES, Partition
from purgatorio.client.fetch import EARLIEST, LATEST, list_offsets
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from purgatorio.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from purgatorio.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

LIMIT: Final = 1000
"""Partitions that are shown unless more are asked for."""


async def list_topics(client: Client, args: argparse.Namespace) -> Answer:
    """Return what `ListTopics` does, as far as Kafka's metadata have it."""
    found = await client.describe(None if args.topic is None else [args.topic])
    if args.topic is not None:
        await check_topic(client, args.topic, found.topics[0].error_code)
    topics = sorted(found.topics, key=lambda each: (each.is_internal, each.name))
    rows = [row for topic in topics for row in _partitions(topic)]
    limit = LIMIT if args.limit is None else args.limit
    offline = sum(row["offline"] for row in rows)
    return {"partitions": rows[:limit], "partition_count": len(rows), "offline_count": offline}


def _partitions(topic: MetadataResponseTopic) -> Iterable[Answer]:
    for each in sorted(topic.partitions, key=lambda part: part.partition_index):
        yield {
            "topic": topic.name,
            "partition": each.partition_index,
            "internal": topic.is_internal,
            "leader": each.leader_id,
            "leader_epoch": each.leader_epoch,
            "offline": each.leader_id < 0,
            "replicas": each.replica_nodes,
            "isr": each.isr_nodes,
            "elr": None,
            "reassignment": None,
        }


async def create(client: Client, args: argparse.Namespace) -> Answer:
    """Create a topic; its leaders may still be on their way."""
    topic = CreatableTopic(
        name=args.name,
        num_partitions=args.partitions or -1,
        replication_factor=args.replicas or -1,
        configs=[CreatableTopicConfig(name=name, value=str(value)) for name, value in (args.configs or {}).items()],
    )
    controller = await _controller(client)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_server_ms(args))
    (result,) = (await client.ask(controller, request)).topics
    if result.error_code:
        raise refused(explained(result.error_code, result.error_message, f"topic {args.name}"))
    count = result.num_partitions  # -1 before version 5
    if count < 0:
        count = len((await client.metadata(args.name)).topics[0].partitions)
    return {"topic": args.name, "partition_count": count}


async def delete(client: Client, args: argparse.Namespace) -> Answer:
    """Delete topics; those that cannot be deleted are refused when the others are gone."""
    names = list(dict.fromkeys(args.topics))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=each) for each in names], topic_names=names, timeout_ms=_server_ms(args)
    )
    answer = await client.ask(await _controller(client), request)
    deleted, wrong = [], []
    for each in answer.responses:
        if not each.error_code:
            deleted.append(each.name)
        elif each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            near = await near_topic(client, each.name)
            wrong.append(f"UNKNOWN_TOPIC_OR_PARTITION: there is no topic {each.name}{near}")
        else:
            wrong.append(explained(each.error_code, each.error_message, f"topic {each.name}"))
    return {"deleted": deleted, "refused": wrong}


async def add_partitions(client: Client, args: argparse.Namespace) -> Answer:
    """Add partitions to a topic; its leaders may still be on their way."""
    (topic,) = (await client.metadata(args.topic)).topics
    await check_topic(client, args.topic, topic.error_code)
    count = len(topic.partitions) + args.count
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=args.topic, count=count, assignments=None)], timeout_ms=_server_ms(args)
    )
    (result,) = (await client.ask(await _controller(client), request)).results
    if result.error_code:
        raise refused(explained(result.error_code, result.error_message, f"topic {args.topic}"))
    return {"topic": args.topic, "partition_count": count, "added": args.count}


async def describe(client: Client, args: argparse.Namespace) -> Answer:
    """Return a topic with its partitions, their first and end offsets, and the configs that are not defaults."""
    metadata = await client.metadata(args.topic)
    (topic,) = metadata.topics
    await check_topic(client, args.topic, topic.error_code)
    rows = list(_partitions(topic))
    shown = rows[: LIMIT if args.limit is None else args.limit]
    offsets = await offsets_of(client, metadata, {row["partition"] for row in shown})
    for row in shown:
        start, end = offsets.get((args.topic, row["partition"]), (None, None))
        row |= {"start_offset": start, "end_offset": end}
    configs = await describe_configs(client, TOPIC, args.topic)
    return {
        "topic": args.topic,
        "topic_id": topic.topic_id.hex(),
        "internal": topic.is_internal,
        "partition_count": len(rows),
        "offline_count": sum(row["offline"] for row in rows),
        "replicas": max((len(row["replicas"]) for row in rows), default=0),
        "partitions": shown,
        "configs": [each for each in configs if each["source"] == TOPIC],
    }


async def offsets_of(
    client: Client, metadata: MetadataResponse, wanted: Collection[int] | None = None
) -> dict[Partition, tuple[int | None, int | None]]:
    """Return the first and the end offset of partitions in metadata; None: its leader does not say now."""
    by_leader: dict[int, list[Partition]] = {}
    for topic in metadata.topics:
        for each in topic.partitions:
            if each.leader_id >= 0 and (wanted is None or each.partition_index in wanted):
                by_leader.setdefault(each.leader_id, []).append((topic.name or "", each.partition_index))
    found: dict[Partition, tuple[int | None, int | None]] = {}

    async def ask(leader: int, partitions: list[Partition]) -> None:
        for batch in in_batches(partitions, 4 * BATCH):
            try:
                starts, ends = [
                    await list_offsets(client, leader, dict.fromkeys(batch, which)) for which in (EARLIEST, LATEST)
                ]
            except FAILURES:
                return
            for tp in batch:
                found[tp] = _known(starts.get(tp)), _known(ends.get(tp))

    await asyncio.gather(*(ask(leader, partitions) for leader, partitions in by_leader.items()))
    return found


def _known(answer: tuple[int, int] | None) -> int | None:
    return None if answer is None or answer[0] else answer[1]


async def _controller(client: Client) -> int:
    """Return the broker to ask for changes: the controller, or one that passes them on to it (KRaft)."""
    found = int((await client.describe([])).controller_id)
    if found < 0:
        raise refused("NOT_CONTROLLER: the cluster has no controller now")
    return found


def _server_ms(args: argparse.Namespace) -> int:
    """Return the broker's time limit, which ends before ours does."""
    return max(1, int(args.timeout * 900))
