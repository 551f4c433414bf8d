"""Records leaders and topics, so that the checks know when a leader epoch has ended, or a log has begun anew."""

from __future__ import annotations

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.simulation.history.history import History, LeaderElected, TopicRecreated
from purgatorio.simulation.world.cluster import SimulatedCluster


def record_leaders(cluster: SimulatedCluster, history: History) -> None:
    """Record each leader epoch and each topic created again that the metadata store commits from now on."""
    ids: dict[str, bytes] = {}

    def committed(before: ClusterImage, after: ClusterImage) -> None:
        for name, topic in after.topics.items():
            earlier = before.topics.get(name)
            if topic is earlier:
                continue
            known = earlier.partitions if earlier is not None and earlier.topic_id == topic.topic_id else ()
            is_new = ids.setdefault(name, topic.topic_id) != topic.topic_id
            ids[name] = topic.topic_id
            for index, state in enumerate(topic.partitions):
                if is_new and index >= len(known):
                    history.record(TopicRecreated(cluster.clock.now_ms(), f"{name}-{index}"))
                if index >= len(known) or known[index].leader_epoch != state.leader_epoch:
                    now_ms = cluster.clock.now_ms()
                    history.record(LeaderElected(now_ms, f"{name}-{index}", state.leader, state.leader_epoch))

    cluster.store.committed.append(committed)
