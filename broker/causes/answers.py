"""Why requests wait: each group of them in a sentence that names the actor, and the ways out, for people and pages.

`purgatorio.admin.operations.reading.waits` makes the groups. This reads them, and the rows of brokers and transactions
beside them, as the JSON documents that they are, since those of several processes are put together before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from purgatorio.broker.causes.cause import (
    FaultActs,
    FirstMembersToJoin,
    FollowerBehind,
    LogStartBehind,
    MarkersMissing,
    MembersToJoin,
    MembersToSync,
    NoLeader,
    NoRecordsYet,
    NoShareRecordsYet,
    NotDecided,
    NotLeading,
    OnlyDeadline,
    OpenTransaction,
    RecordsLocked,
    ReplicationThrottled,
    TierLookUp,
    TierNotListed,
    TierRead,
    TierThrottled,
    TooFewInSync,
)
from purgatorio.broker.causes.kinds import of_noun
from purgatorio.broker.causes.why import Why
from purgatorio.broker.causes.words import and_more, away, listed, plural, seconds, size

Document = dict[str, Any]

MAX_BUTTON: Final = 20
"""Characters of a member's name on a button."""
MAX_SAID_OF_TIER: Final = 10
"""Sentences about the tier."""


def explain(state: Document) -> None:
    """Add a sentence, `says`, and requests that end the waits, `ways`, to each group of `state["waits"]`.

    The tier gets its sentences, `says`, too.

    A way has the words of its button (`does`), and `path` and `body` of a POST below ``/api/v1``.
    """
    cluster = _Cluster(state)
    tier = state.get("tier")
    if tier is not None:
        tier["says"] = _of_tier(tier)
    for wait in state["waits"]:
        told = _BY_NAME.get(wait["kind"], _other)
        wait["says"], wait["ways"] = told(wait, cluster)


class _Cluster:
    """The state of brokers and transactions, which sentences about actors need."""

    def __init__(self, state: Document) -> None:
        self.brokers: dict[int, Document] = {row["id"]: row for row in state["brokers"]}
        self.transactions: dict[str, Document] = {row["id"]: row for row in state["transactions"]}
        tier = state.get("tier") or {"brokers": ()}
        self.rebuilding: dict[int, Sequence[str]] = {row["id"]: row["rebuilding"] for row in tier["brokers"]}

    def about(self, broker_id: int) -> tuple[str, list[Document]]:
        """Return the trouble of a broker, as a relative clause ("" if none is known), and the ways out."""
        row = self.brokers.get(broker_id)
        if row is None:
            return "", []
        follower, process = row.get("follower"), row.get("process", {})
        name, is_here = f"brokers/{broker_id}", process.get("id", 0) is not None
        start, resume = _way(f"Start broker {broker_id}", f"{name}/start"), _way("Resume it", f"{name}/resume")
        if process.get("trouble") and (row["paused"] or row["state"] == "running"):
            return f"whose process {process['trouble']}", [resume] if row["paused"] and is_here else []
        if row["state"] in ("stopped", "stopping"):
            return ("which is down" if row["state"] == "stopped" else "which stops"), [start] if is_here else []
        if row["state"] == "starting":
            return "which starts", []
        if row["paused"]:
            return "which stands still", [resume]
        if row["cut_off_from"]:
            return f"which is cut off from broker {listed(row['cut_off_from'])}", [
                _way("Heal the network", "network/heal")
            ]
        if row["fenced"] or not row["lease"]["held"]:
            return "which has lost its lease", []
        if follower is not None and (follower["held"] or follower["delay_ms"]):
            return _of_fetches(follower, name)
        rebuilding = self.rebuilding.get(broker_id)
        return (f"which rebuilds {listed(rebuilding)} from the tier" if rebuilding else ""), []

    def named(self, broker_ids: Sequence[int], otherwise: str = "") -> tuple[str, list[Document]]:
        """Return brokers with their troubles: "broker 3, whose fetches are held"."""
        names, ways = [], []
        for broker_id in broker_ids:
            trouble, ways_out = self.about(broker_id)
            clause = trouble or otherwise
            names.append(f"broker {broker_id}" + (f", {clause}" if clause else ""))
            ways += ways_out
        return listed(names), ways


def _of_fetches(follower: Document, name: str) -> tuple[str, list[Document]]:
    if follower["held"]:
        return "whose fetches are held", [_way("Release fetches", f"{name}/follower", held=False)]
    delay = f"whose fetches are delayed by {follower['delay_ms']} ms"
    return delay, [_way("End the delay", f"{name}/follower", delay_ms=0)]


def _way(does: str, path: str, **body: Any) -> Document:
    return {"does": does, "path": path, "body": body}


# --- parts of sentences ---


def _subject(wait: Mapping[str, Any]) -> str:
    """Return the requests and their clients: "134 produce requests of 12 clients wait"."""
    counted = [plural(number, *of_noun(noun).one_and_many) for noun, number in wait["counts"].items()]
    total = sum(wait["counts"].values())
    about = "about " if wait["estimated"] else ""
    return f"{about}{listed(counted)}{_clients(wait)} wait{'s' if total == 1 else ''}"


def _clients(wait: Mapping[str, Any]) -> str:
    if wait["client_count"] > 1:
        return f" of {wait['client_count']} clients"
    return f" of {wait['clients'][0]}" if wait["clients"] and wait["clients"][0] else ""


def _places(wait: Mapping[str, Any]) -> str:
    return wait["partitions"][0] if wait["partition_count"] == 1 else f"{wait['partition_count']} partitions"


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# --- replicas ---


def _follower_behind(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    actor, ways = cluster.named(wait["broker_ids"], "which has not fetched the records yet")
    behind = plural(wait["behind"], "record")
    up_to = "up to " if wait["behind"] > 1 and wait["partition_count"] > 1 else ""
    return _sentence(f"{_subject(wait)} for {actor}: {up_to}{behind} behind on {_places(wait)}"), ways


def _log_start_behind(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    actor, ways = cluster.named(wait["broker_ids"], "which has not deleted the records yet")
    return _sentence(f"{_subject(wait)} for {actor}, to delete records of {_places(wait)}"), ways


def _too_few_in_sync(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    actor, ways = cluster.named(wait["broker_ids"], "which is not in sync")
    there, needed = wait["cause"]["in_sync_count"], wait["cause"]["needed_count"]
    replicas = f"{plural(there, 'replica is', 'replicas are')} in sync on {_places(wait)}"
    return _sentence(f"{_subject(wait)} for {actor or 'replicas'}: {replicas}, min.insync.replicas is {needed}"), ways


def _not_leading(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    actor, ways = cluster.named(wait["broker_ids"])
    return _sentence(f"{_subject(wait)} for {actor} to begin to lead {_places(wait)}"), ways


def _no_leader(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    return _sentence(f"{_subject(wait)} for a leader of {_places(wait)}"), []


def _not_decided(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    return _sentence(f"{_subject(wait)} for the metadata store to decide"), []


def _replication_throttled(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    rates = " of ".join(f"{wait['cause'][name]:.3g} B/s" for name in ("bytes_per_second", "limit"))
    return _sentence(f"{_subject(wait)} for the quota on replication: {rates}, on {_places(wait)}"), []


def _tier_throttled(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    rates = " of ".join(f"{wait['cause'][name]:.3g} B/s" for name in ("bytes_per_second", "limit"))
    return _sentence(f"{_subject(wait)} for the quota on reads of the tier: {rates}, on {_places(wait)}"), []


def _no_records_yet(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    """Return that a fetch waits for records, or that there are some, and fewer bytes than it wants."""
    if wait.get("wanted_bytes") is None:
        return _sentence(f"{_subject(wait)} for new records, as long polls do"), []
    available, wanted = (_range(*wait[name]) for name in ("available_bytes", "wanted_bytes"))
    is_or_are = "is" if available == "1" else "are"
    text = f"{_subject(wait)} for more bytes of {_places(wait)}: {available} {is_or_are} there"
    return _sentence(f"{text}, fetch.min.bytes is {wanted}"), []


def _records_locked(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    group_id = wait["cause"]["group_id"]
    text = f"{_subject(wait)} for members of group {group_id}: they have as many records as they may have"
    expire = _way("Let their locks run out", f"share-groups/{quote(group_id, safe='')}/expire-locks")
    return _sentence(f"{text}, of {_places(wait)}"), [expire]


# --- the tier ---


def _tier_read(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    held_by = cause.get("held_by")
    ways = [] if held_by is None else [_way("Remove the rule", f"faults/{held_by}/release")]
    if sum(wait["counts"].values()) == 1 and wait["partition_count"] == 1 and cause["kind"] == TierRead.__name__:
        return _sentence(f"{_subject(wait)} {wait['missing'].partition(' ')[2]}"), ways
    reason = f": {cause['trouble']}" if cause["trouble"] else "" if held_by is None else f": held by rule {held_by}"
    return _sentence(f"{_subject(wait)} for {cause['location']} to give back records of {_places(wait)}{reason}"), ways


def _tier_look_up(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    if sum(wait["counts"].values()) > 1 or wait["partition_count"] > 1:
        return _tier_read(wait, cluster)
    return _sentence(f"{_subject(wait)}: {wait['missing']}"), []


def _tier_not_listed(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    trouble = f": {cause['trouble']}" if cause["trouble"] else ""
    return _sentence(f"{_subject(wait)} to hear what {cause['location']} has of {_places(wait)}{trouble}"), []


def _of_tier(tier: Document) -> list[str]:
    """Return sentences about the tier: copies that fail, producers that are refused, damage, and rebuilding."""
    strips, said = tier["strips"], []
    told: set[int] = set()
    for trouble in dict.fromkeys(row["trouble"] for row in tier["brokers"] if row["trouble"]):
        rows = [row for row in tier["brokers"] if row["trouble"] == trouble]
        ids = {row["id"] for row in rows}
        told |= ids
        store = away(tier["location"], max(row["away_ms"] or 0 for row in rows), trouble)
        led = [strip for strip in strips if strip["leader"] in ids and strip["uncopied_bytes"]]
        said.append(f"{_not_copied(led)}: {store}{_refused(led, '; ')}." if led else f"{store}.")
    refused = [strip for strip in strips if strip["refused"] and strip["leader"] not in told]
    if refused:
        said.append(f"{_not_copied(refused)} yet{_refused(refused, ', and ')}.")
    for strip in strips:
        damaged = [run for run in strip["runs"] if run["kind"] == "damaged"]
        for run in damaged[:1]:
            where = f"{_tp_of(strip)} [{run['start']}, {run['end']})"
            more = and_more(len(damaged) - 1)
            said.append(f"{where}{more} cannot be read from {tier['location']}: {run['trouble']}.")
    rebuilds = (row for row in tier["brokers"] if row["rebuilding"])
    said += (f"Broker {row['id']} rebuilds {listed(row['rebuilding'])} from the tier." for row in rebuilds)
    return said[:MAX_SAID_OF_TIER]


def _not_copied(strips: Sequence[Document]) -> str:
    total = sum(strip["uncopied_bytes"] for strip in strips)
    return f"{size(total)} of {listed([_tp_of(strip) for strip in strips])} are not copied"


def _refused(strips: Sequence[Document], joint: str) -> str:
    refused = [_tp_of(strip) for strip in strips if strip["refused"]]
    if not refused:
        return ""
    whose = "producers" if len(refused) == len(strips) else f"producers to {listed(refused)}"
    return f"{joint}{whose} are refused"


def _tp_of(strip: Document) -> str:
    return f"{strip['topic']}-{strip['partition']}"


# --- transactions ---


def _open_transaction(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    transactional_id = cause["transactional_id"]
    owner = transactional_id or f"producer {cause['producer_id']}"
    row = cluster.transactions.get(transactional_id)
    if cause["open_ms"] is None:
        return _sentence(f"{_subject(wait)} for the end of the transaction of {owner} to be committed"), []
    end = ""
    if row is not None and row["timeout_left_ms"] is not None:
        end = f", and will be aborted in {seconds(row['timeout_left_ms'])}"
    open_for = f"which has been open for {seconds(cause['open_ms'])} on {_places(wait)}"
    text = f"{_subject(wait)} for the transaction of {owner}, {open_for}{end}"
    return _sentence(text), [_abort(transactional_id)] if transactional_id else []


def _markers_missing(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    actor, ways = cluster.named(wait["broker_ids"])
    owner = wait["cause"]["transactional_id"]
    writer = f"{actor} to write " if actor else ""
    return _sentence(f"{_subject(wait)} for {writer}the end markers of {owner} on {_places(wait)}"), ways


def _abort(transactional_id: str) -> Document:
    return _way("Abort it", f"transactions/{quote(transactional_id, safe='')}/abort")


# --- the layers before the handlers ---


def _fault_acts(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    number = sum(wait["counts"].values())
    them, their = ("it", "its answer") if number == 1 else ("them", "their answers")
    acts = {
        "hold": f"which holds {them} until it is released",
        "delay_ms": f"which delays {them} by {cause['delay_ms']} ms",
        "answer_delay_ms": f"which delays {their} by {cause['delay_ms']} ms",
        "drop": f"which never answers {them}",
    }[cause["action"]]
    rule = f"fault rule {cause['fault_id']}"
    if cause["fault"] != f"fault {cause['fault_id']}":
        rule += f" ({cause['fault']})"
    text = f"{number} {cause['api']} {_subject(wait).partition(' ')[2]} for {rule}, {acts}"
    return _sentence(text), [_way("Remove the rule", f"faults/{cause['fault_id']}/release")]


# --- groups ---


def _members_to_join(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    awaited = [_members(cause["members"], cause["more_count"])] if cause["members"] else []
    if cause["new_count"]:
        awaited.append(plural(cause["new_count"], "new member"))
    text = f"the rebalance of group {cause['group_id']} waits for {' and for '.join(awaited)} to join"
    return _sentence(text), _session_ends(cause["group_id"], cause["members"])


def _members_to_sync(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    leader = cause["leader"]
    if leader is None:
        awaited = f"{_members(cause['members'], cause['more_count'])} to ask for the assignment"
    else:
        awaited = f"its leader {leader['name']}, to send the assignment"
    text = f"generation {cause['generation']} of group {cause['group_id']} waits for {awaited}"
    return _sentence(text), _session_ends(cause["group_id"], cause["members"] if leader is None else [leader])


def _members(members: Sequence[Document], more_count: int) -> str:
    names = listed([each["name"] for each in members], more_count)
    return f"member{'s' * (len(members) + more_count > 1)} {names}"


def _session_ends(group_id: str, members: Sequence[Document]) -> list[Document]:
    """Return how to go on without the first of the members that are awaited."""
    path = f"groups/{quote(group_id, safe='')}/expire-member"
    return [_way(f"Go on without {each['name'][:MAX_BUTTON]}", path, member=each["member_id"]) for each in members[:1]]


def _first_members_to_join(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    cause = wait["cause"]
    members = plural(cause["joined_count"], "has", "have")
    text = f"the first rebalance of group {cause['group_id']} waits for more members: {members} joined"
    return _sentence(text), []


def _only_deadline(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    return _sentence(f"{_subject(wait)} for their deadlines, and for no event"), []


def _other(wait: Document, cluster: _Cluster) -> tuple[str, list[Document]]:
    """Return the missing condition: groups, quotas and transactions name themselves the parties that they wait for."""
    return _sentence(f"{_subject(wait)}: {wait['missing']}"), []


_SENTENCES: Final[dict[type[Why], Callable[[Document, _Cluster], tuple[str, list[Document]]]]] = {
    FollowerBehind: _follower_behind,
    LogStartBehind: _log_start_behind,
    TooFewInSync: _too_few_in_sync,
    NotLeading: _not_leading,
    NoLeader: _no_leader,
    NotDecided: _not_decided,
    ReplicationThrottled: _replication_throttled,
    TierThrottled: _tier_throttled,
    NoRecordsYet: _no_records_yet,
    TierRead: _tier_read,
    TierLookUp: _tier_look_up,
    TierNotListed: _tier_not_listed,
    NoShareRecordsYet: _no_records_yet,
    RecordsLocked: _records_locked,
    OpenTransaction: _open_transaction,
    MarkersMissing: _markers_missing,
    FaultActs: _fault_acts,
    MembersToJoin: _members_to_join,
    MembersToSync: _members_to_sync,
    FirstMembersToJoin: _first_members_to_join,
    OnlyDeadline: _only_deadline,
}
_BY_NAME: Final = {kind.__name__: told for kind, told in _SENTENCES.items()}
"""By the name of the cause's class, which is its kind in JSON."""
