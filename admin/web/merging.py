"""Merges the answers of several processes, each about its own broker, into that of one process with all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

from purgatorio.admin.operations import (
    brokers,
    clock,
    faults,
    groups,
    network,
    purgatories,
    share_groups,
    tier,
    topics,
    transactions,
    why,
)
from purgatorio.admin.operations.declare import Answer, Operation
from purgatorio.admin.operations.reading.matrix import merged_matrix
from purgatorio.admin.operations.reading.share_state import merged as merged_share_groups
from purgatorio.admin.operations.reading.share_strips import merged_shares
from purgatorio.admin.operations.reading.state import FINISHED, FIRED, PARTITIONS
from purgatorio.admin.operations.reading.tier_state import merged_tier
from purgatorio.admin.operations.reading.waits import merged_waits
from purgatorio.admin.operations.reading.why.facts import MAX_PARTITIONS, merged_facts
from purgatorio.broker.metadata.topic_name import is_internal

Answers = Sequence[Answer]
"""At least one answer, in the order of the brokers."""


def merged(kind: type[Operation], answers: Answers) -> Answer:
    """Return one answer for those of all brokers that answered."""
    return _MERGES[kind](answers)


def _joined(answers: Answers, name: str) -> list[Any]:
    return list(chain.from_iterable(answer[name] for answer in answers))


def _newest(answers: Answers, name: str, limit: int, moment: str) -> list[Any]:
    return sorted(_joined(answers, name), key=lambda row: -row[moment])[:limit]


def _by(rows: Iterable[Any], key: Callable[[Any], Hashable]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _summed(rows: Answers, *names: str) -> Answer:
    """Return the first of these with the sums of what all of them have by these names."""
    return {**rows[0], **{name: sum(row[name] for row in rows) for name in names}}


def _counts(row: Answer) -> list[str]:
    return [name for name, value in row.items() if isinstance(value, int)]


def _listed(lists: str, count: str, *counts: str) -> Callable[[Answers], Answer]:
    """Return how answers are merged that list things, each at one broker, by name, with their number."""

    def merge(answers: Answers) -> Answer:
        rows = sorted(_joined(answers, lists), key=lambda row: row["id"])
        return {**_summed(answers, count, *counts), lists: rows}

    return merge


# --- the whole state ---


def _state(answers: Answers) -> Answer:
    return {
        **answers[0],
        "now_ms": max(answer["now_ms"] for answer in answers),
        "wall_ms": max(answer["wall_ms"] for answer in answers),
        "waits": merged_waits(_joined(answers, "waits")),
        "brokers": _joined(answers, "brokers"),
        "partitions": _partitions(answers, PARTITIONS),
        "partition_count": max(answer["partition_count"] for answer in answers),
        "groups": sorted(_joined(answers, "groups"), key=lambda row: row["id"]),
        "group_count": sum(answer["group_count"] for answer in answers),
        "shares": merged_shares(_joined(answers, "shares")),
        "tier": merged_tier([answer["tier"] for answer in answers]),
        "transactions": sorted(_joined(answers, "transactions"), key=lambda row: row["id"]),
        "transaction_counts": _summed(
            [answer["transaction_counts"] for answer in answers], *answers[0]["transaction_counts"]
        ),
        "faults": _faults(answers),
        "fault_count": max(answer["fault_count"] for answer in answers),
        "fired": _newest(answers, "fired", FIRED, "at_ms"),
        "finished": _newest(answers, "finished", FINISHED, "done_ms"),
    }


def _partitions(answers: Answers, limit: int) -> list[Any]:
    """Return each partition as its leader's process shows it, with what each replica's own process knows of that."""
    seen = _by(_joined(answers, "partitions"), lambda row: (is_internal(row["topic"]), row["topic"], row["partition"]))
    return [_partition(seen[place]) for place in sorted(seen)][:limit]


def _facts(answers: Answers) -> Answer:
    return merged_facts(answers, _partitions(answers, MAX_PARTITIONS), _faults(answers))


def _partition(views: Answers) -> Answer:
    """Return a partition of the views that its replicas' processes have."""

    def own(view: Answer, broker: int) -> Any:
        return next(each for each in view["replicas"] if each["broker"] == broker)

    def is_of_leader(view: Answer) -> bool:
        is_led = view["leader"] in [each["broker"] for each in view["replicas"]]
        return is_led and own(view, view["leader"])["log_end_offset"] is not None

    best = max(views, key=lambda view: (is_of_leader(view), view["leader_epoch"], view["high_watermark"]))
    replicas = []
    for replica in best["replicas"]:
        known = (each for view in views for each in view["replicas"] if each["broker"] == replica["broker"])
        found = next((each for each in known if each["log_end_offset"] is not None), replica)
        replicas.append({**replica, "log_end_offset": found["log_end_offset"], "refusal": found["refusal"]})
    return {**best, "replicas": replicas}


# --- others ---


def _faults(answers: Answers) -> list[Any]:
    """Return each rule, which all processes have, with what it did in all of them."""
    by_id = _by(_joined(answers, "faults"), lambda row: row["id"])
    return [_fault(by_id[rule]) for rule in sorted(by_id)]


def _fault(rows: Answers) -> Answer:
    return {**_summed(rows, "matched", "fired", "held"), "spent": all(row["spent"] for row in rows)}


def _list_faults(answers: Answers) -> Answer:
    return {
        **answers[0],
        "faults": _faults(answers),
        "fired": _newest(answers, "fired", faults.MAX_FIRED_SHOWN, "at_ms"),
    }


def _release(answers: Answers) -> Answer:
    return {**_fault(answers), "released": sum(answer["released"] for answer in answers)}


def _released(answers: Answers) -> Answer:
    return _summed(answers, "released")


def _tier(answers: Answers) -> Answer:
    by_topic = _by(_joined(answers, "topics"), lambda row: row["topic"])
    trouble = next((answer["trouble"] for answer in answers if answer["trouble"]), "")
    topics = [_summed(by_topic[name], *_counts(by_topic[name][0])) for name in sorted(by_topic)]
    return {**answers[0], "trouble": trouble, "topics": topics}


def _in_tier(answers: Answers) -> Answer:
    """Return the partitions, each of which one process has: its leader's."""
    rows = sorted(_joined(answers, "partitions"), key=lambda row: row["partition"])
    return {**max(answers, key=lambda answer: answer["location"]), "partitions": rows}


def _offloaded(answers: Answers) -> Answer:
    rows = sorted(_joined(answers, "partitions"), key=lambda row: row["partition"])
    return {**_summed(answers, "dropped_bytes"), "partitions": rows}


def _verified(answers: Answers) -> Answer:
    damaged = sorted(_joined(answers, "damaged"), key=lambda row: (row["partition"], row["start_offset"]))
    return {**_summed(answers, *_counts(answers[0])), "damaged": damaged[: tier.MAX_DAMAGES]}


def _swept(answers: Answers) -> Answer:
    return _summed(answers, "deleted")


def _finished(answers: Answers) -> Answer:
    return {**answers[0], "finished": _newest(answers, "finished", purgatories.MAX_OPERATIONS, "done_ms")}


def _advanced(answers: Answers) -> Answer:
    shown = max(len(answer["ended"]) for answer in answers)
    limit = max(clock.ENDED_SHOWN, shown)  # one that asks for more gets more
    return {**_summed(answers, "ended_count"), "ended": _joined(answers, "ended")[:limit]}


def _brokers(answers: Answers) -> Answer:
    return {"brokers": _joined(answers, "brokers")}


def _connections(answers: Answers) -> Answer:
    rows = _joined(answers, "connections")[: brokers.MAX_CONNECTIONS]
    return {**_summed(answers, "connection_count"), "connections": rows}


def _clients(answers: Answers) -> Answer:
    clients = sorted(set(_joined(answers, "clients")))[: brokers.MAX_CLIENTS]
    return {"clients": clients, "client_count": max(len(clients), *(each["client_count"] for each in answers))}


def _parked(answers: Answers) -> Answer:
    return {"parked": _joined(answers, "parked")}


def _topic(answers: Answers) -> Answer:
    count = max(answer["partition_count"] for answer in answers)
    found = {word: all(answer[word] for answer in answers) for word in ("led", "in_sync")}
    return {**answers[0], "partition_count": count, **found}


def _listed_share_groups(answers: Answers) -> Answer:
    by_id = _by(_joined(answers, "share_groups"), lambda row: row["id"])
    rows = [_summed(by_id[group], *(name for name in by_id[group][0] if name != "id")) for group in sorted(by_id)]
    return {"share_groups": rows, "share_group_count": len(rows)}


def _expired_locks(answers: Answers) -> Answer:
    return _summed(answers, "expired")


def _first(answers: Answers) -> Answer:
    return answers[0]


_MERGES: Final[dict[type[Operation], Callable[[Answers], Answer]]] = {
    purgatories.State: _state,
    why.Facts: _facts,
    purgatories.Finished: _finished,
    purgatories.ListParked: _parked,
    purgatories.Matrix: merged_matrix,
    brokers.ListBrokers: _brokers,
    brokers.ListConnections: _connections,
    brokers.ListClients: _clients,
    topics.ShowTopic: _topic,
    topics.Compact: _first,
    topics.ApplyRetention: _first,
    groups.ListGroups: _listed("groups", "group_count", "loading_partition_count"),
    share_groups.ListShareGroups: _listed_share_groups,
    share_groups.DescribeShareGroup: merged_share_groups,
    share_groups.ExpireLocks: _expired_locks,
    transactions.ListTransactions: _listed("transactions", "transaction_count", "loading_partition_count"),
    tier.ListTier: _tier,
    tier.ShowTier: _in_tier,
    tier.Offload: _offloaded,
    tier.VerifyTier: _verified,
    tier.SweepTier: _swept,
    tier.HoldTier: _fault,
    tier.ReleaseTier: _released,
    faults.ListFaults: _list_faults,
    faults.AddFault: _first,
    faults.ClearFaults: _first,
    faults.RemoveFault: _fault,
    faults.ReleaseFault: _release,
    clock.AdvanceClock: _advanced,
    clock.FreezeClock: _first,
    clock.UnfreezeClock: _first,
    network.ShowNetwork: _first,
}
