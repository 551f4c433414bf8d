"""Records the leaders of partitions, so that the checks know when a leader epoch has ended."""

from __future__ import annotations

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.simulation.cluster import SimulatedCluster
from purgatorio.broker.simulation.history import History, LeaderElected


def record_leaders(cluster: SimulatedCluster, history: History) -> None:
    """Record a `LeaderElected` for each leader epoch that the metadata store commits from now on."""

    def committed(before: ClusterImage, after: ClusterImage) -> None:
        for name, topic in after.topics.items():
            earlier = before.topics.get(name)
            if topic is earlier:
                continue
            known = earlier.partitions if earlier is not None and earlier.topic_id == topic.topic_id else ()
            for index, state in enumerate(topic.partitions):
                if index >= len(known) or known[index].leader_epoch != state.leader_epoch:
                    now_ms = cluster.clock.now_ms()
                    history.record(LeaderElected(now_ms, f"{name}-{index}", state.leader, state.leader_epoch))

    cluster.store.committed.append(committed)
