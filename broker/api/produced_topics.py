"""The topics that a Produce request names by id (KIP-516): their names, and the batches for topics that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.results import AppendResult
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import ProduceRequest
from purgatorio.protocol.primitives import Buffer


def name_topics(image: ClusterImage, request: ProduceRequest) -> Mapping[str, bytes]:
    """Fill in the names of the topics of a request that has their ids; return the ids by name.

    A topic that the image does not have keeps its empty name, and is not returned.
    """
    topic_ids = {}
    for topic in request.topic_data:
        known = image.topic_by_id(topic.topic_id)
        if known is not None:
            topic.name = known.name
            topic_ids[known.name] = topic.topic_id
    return topic_ids


def of_gone_topics(
    lookup: ReplicaLookup, topic_ids: Mapping[str, bytes], batches: Sequence[tuple[TopicPartition, Buffer | None]]
) -> dict[int, AppendResult]:
    """Return UNKNOWN_TOPIC_ID for each batch, by position, whose topic this broker does not have.

    It may still have, or have already, another topic of the same name.

    Args:
        topic_ids: the ids of the topics that exist, by name.
    """
    gone = {}
    for nth, (tp, _) in enumerate(batches):
        topic_id, partition = topic_ids.get(tp.topic), lookup.known(tp)
        if topic_id is None or (partition is not None and partition.topic_id != topic_id):
            gone[nth] = AppendResult(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    return gone
