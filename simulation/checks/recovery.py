"""Whether a cluster has recovered after its faults were healed."""

from __future__ import annotations

from typing import Final

from purgatorio.broker.causes.kinds import FOLLOWER_FETCH
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.delays.finished import kind_of
from purgatorio.protocol.transaction_state import TransactionState
from purgatorio.simulation.world.cluster import SimulatedCluster

OVERDUE_MS: Final = 100
"""A follower's fetch that is parked for so long after its deadline is overdue."""


def unrecovered(cluster: SimulatedCluster) -> str | None:
    """Return the first condition that keeps the cluster from having recovered, or None.

    It has when all partitions have full ISRs and their preferred leaders, no operation is parked but the fetches of
    followers, which always are, and no read of the tier is under way, as no fetch waits for it.
    """
    return _of_partitions(cluster) or _of_brokers(cluster)


def _of_partitions(cluster: SimulatedCluster) -> str | None:
    if cluster.replaced:
        host = cluster.replaced[0].host.name
        return f"the process on {host} still runs, though another has registered under its broker id"
    for (topic, index), state in cluster.partitions.items():
        if len(state.isr) < len(state.replicas):
            return f"{topic}-{index} has in-sync replicas {state.isr_ids} of {state.replicas}"
        if state.adding or state.removing:
            return f"{topic}-{index} is still being reassigned"
        if state.leader != state.replicas[0]:
            return f"{topic}-{index} is led by broker {state.leader}, not {state.replicas[0]}"
    return None


def _of_brokers(cluster: SimulatedCluster) -> str | None:
    for broker_id, broker in cluster.brokers.items():
        for each in broker.purgatories:
            for op in each.operations(1_000):
                if kind_of(each.name, op.keys) is not FOLLOWER_FETCH or op.deadline_ms < each.now_ms() - OVERDUE_MS:
                    return f"broker {broker_id} has parked in {each.name}: {in_words(op.causes)}"
        if broker.tiering is not None and broker.tiering.reads.under_way:
            return f"broker {broker_id} reads from the tier"
    for broker_id, transaction in cluster.transactions():
        state = transaction.value.state
        if transaction.is_busy or state is TransactionState.ONGOING:
            return f"broker {broker_id} has {transaction.transactional_id} in state {state.state_name}"
    return None
