"""The facts of a cluster as rules look at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.metadata.topic_name import is_internal

STUCK: Final = 90
"""The weight of a conclusion that says why a client gets nothing, and what to change."""
WAITS: Final = 70
"""The weight of one that says for whom a client waits, which may end by itself."""
NOTED: Final = 30
"""The weight of one that explains a part of what happens."""
OF_ANOTHER: Final = NOTED - 1
"""The most weight of one about a client that was there before the cluster was reset for this test."""
CALM: Final = 10
"""The weight of one that says that nothing is wrong; it is left out where there is any other."""


LATEST: Final = -1
"""The timestamp by which ListOffsets asks for the end of a partition."""


class Conclusion(NamedTuple):
    """A sentence that follows from facts.

    Attributes:
        says: the sentence, without a capital at its beginning, as names come first, and without a full stop.
        about: the names of groups, topics and clients by which it is asked for.
        weight: those of more weight come first.
    """

    says: str
    about: tuple[str, ...]
    weight: int = STUCK


class Facts:
    """A document of facts, with indexes. Rows are those of the document; `facts.py` describes them.

    Args:
        document: the facts.
    """

    def __init__(self, document: Answer) -> None:
        self.document = document
        self.now_ms: int = document["now_ms"]
        self.brokers: list[Answer] = document["brokers"]
        self.groups: list[Answer] = document["groups"]
        self.positions: list[Answer] = document["positions"]
        self.starts: list[Answer] = document["starts"]
        self.parked: list[Answer] = document["parked"]
        self.ended: list[Answer] = document["ended"]
        self.errors: list[Answer] = document["errors"]
        self.transactions: list[Answer] = document["transactions"]

    @cached_property
    def partitions(self) -> dict[tuple[str, int], Answer]:
        """The partitions by topic and number; of a large cluster, those that clients have to do with."""
        return {(each["topic"], each["partition"]): each for each in self.document["partitions"]}

    @cached_property
    def topics(self) -> dict[str, list[Answer]]:
        """The partitions of each topic that is no internal one, by number; first those topics that clients read."""
        found: dict[str, list[Answer]] = {}
        for each in self.document["partitions"]:
            if not is_internal(each["topic"]):
                found.setdefault(each["topic"], []).append(each)
        return {topic: sorted(rows, key=lambda row: int(row["partition"])) for topic, rows in found.items()}

    @cached_property
    def names(self) -> dict[str, None]:
        """The names of groups, topics and clients that are known, each once."""
        members = (member for group in self.groups for member in group["members"])
        clients = (each["client"] for each in chain(self.positions, members, self.errors, self.parked, self.ended))
        groups = (group["id"] for group in self.groups)
        return dict.fromkeys(filter(None, chain(groups, self.document["topics"], self.document["clients"], clients)))

    def about(self, name: str) -> Facts:
        """Return the facts about a group, a topic or a client id: with those that it has to do with."""
        clients, topics, groups = {name}, {name}, {name}
        joined: dict[str, set[str]] = {}
        for each in self.document["joined"]:
            joined.setdefault(each["group"], set()).add(each["client"])
        for group in self.groups:
            of_group = {member["client"] for member in group["members"]} | joined.get(group["id"], set())
            places = {row["topic"] for row in group["offsets"]}
            if group["id"] == name:
                clients |= of_group
                topics |= places
            if name in of_group or name in places:
                groups.add(group["id"])
        for each in self.positions:
            if each["client"] in clients or each["topic"] == name:
                clients.add(each["client"])
                topics.add(each["topic"])
        document = dict(self.document)
        for of_client in ("positions", "starts", "errors", "parked", "ended", "requests", "idle_requests"):
            document[of_client] = [each for each in document[of_client] if each["client"] in clients]
        document["partitions"] = [each for each in document["partitions"] if each["topic"] in topics]
        document["topic_count"] = len({each["topic"] for each in document["partitions"]})
        document["shares"] = [each for each in document["shares"] if each["group"] in groups]
        document["groups"] = [each for each in self.groups if each["id"] in groups]
        document["group_count"] = len(document["groups"])
        document["parked_count"] = len(document["parked"])
        document["request_count"] = len(document["requests"])
        return Facts(document)

    def asked_topics(self, client: str) -> list[str]:
        """Return the topics of which a client has asked for the metadata."""
        rows = [each for each in self.document["asked"] if each["client"] == client]
        return list(dict.fromkeys(topic for each in rows for topic in each["topics"] if not is_internal(topic)))

    @cached_property
    def _groups_of(self) -> dict[str, list[tuple[Answer, Answer]]]:
        found: dict[str, list[tuple[Answer, Answer]]] = {}
        for group in self.groups:
            for member in group["members"]:
                found.setdefault(member["client"], []).append((group, member))
        return found

    def memberships(self, client: str) -> Sequence[tuple[Answer, Answer]]:
        """Return the groups in which a client id is a member, with that member; several clients may have one id."""
        return self._groups_of.get(client, ())

    def groups_of(self, client: str) -> list[Answer]:
        """Return the groups in which a client id is a member, or has been one, as far as that is known."""
        names = self._joined_by.get(client, set()) | {group["id"] for group, _ in self.memberships(client)}
        return [group for group in self.groups if group["id"] in names]

    def concerned(self, names: Sequence[str]) -> list[str]:
        """Return the groups that these names do not have, and that they concern.

        Names of a client concern the groups whose member it is, unless there is one of its groups among them; those of
        topics alone, the groups whose members own partitions of them.
        """
        if self._group_ids.intersection(names):
            return []
        found = dict.fromkeys(group for name in names for group in self._clients_groups.get(name, ()))
        if not found and all(name in self.topics for name in names):
            found = dict.fromkeys(group for name in names for group in self._topics_groups.get(name, ()))
        return list(found)

    @cached_property
    def _group_ids(self) -> frozenset[str]:
        return frozenset(group["id"] for group in self.groups)

    @cached_property
    def _clients_groups(self) -> dict[str, dict[str, None]]:
        found: dict[str, dict[str, None]] = {}
        for client, groups in self._joined_by.items():
            found.setdefault(client, {}).update(dict.fromkeys(sorted(groups)))
        for client, memberships in self._groups_of.items():
            found.setdefault(client, {}).update(dict.fromkeys(group["id"] for group, _ in memberships))
        return found

    @cached_property
    def _topics_groups(self) -> dict[str, dict[str, None]]:
        found: dict[str, dict[str, None]] = {}
        for group in self.groups:
            for topic in {topic for member in group["members"] for topic, _ in owned(member)}:
                found.setdefault(topic, {})[group["id"]] = None
        return found

    def groups_now(self, client: str) -> list[Answer]:
        """Return the group in which a client id is a member, or which it joined last; none if it is several members."""
        members = self.memberships(client)
        if members:
            return [group for group, _ in members] if len(members) == 1 else []
        _, name = self._last_joins.get(client, (0, ""))
        return [group for group in self.groups if group["id"] == name]

    @cached_property
    def _last_joins(self) -> dict[str, tuple[int, str]]:
        """When each client id has joined a group last, and which."""
        found: dict[str, tuple[int, str]] = {}
        for each in self.document["joined"]:
            found[each["client"]] = max(found.get(each["client"], (0, "")), (each["at_ms"], each["group"]))
        return found

    @cached_property
    def _joined_by(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each in self.document["joined"]:
            found.setdefault(each["client"], set()).add(each["group"])
        return found

    def owner_of(self, client: str, topic: str, partition: int) -> tuple[Answer, Answer] | None:
        """Return the group and the member by which a client id owns a partition; None if it does not."""
        for group, member in self.memberships(client):
            if (topic, partition) in owned(member):
                return group, member
        return None

    def committed(self, group: Answer, topic: str, partition: int) -> int | None:
        """Return the committed offset of a group; None if there is none."""
        return self._committed.get((group["id"], topic, partition))

    @cached_property
    def _committed(self) -> dict[tuple[str, str, int], int | None]:
        rows = ((group["id"], row) for group in self.groups for row in group["offsets"])
        return {(name, row["topic"], row["partition"]): row["offset"] for name, row in rows}

    def unlisted(self, client: str) -> int:
        """Return how many partitions a client fetches, at least, that have no position here."""
        return self._unlisted.get(client, 0)

    @cached_property
    def _unlisted(self) -> dict[str, int]:
        listed = Counter((each["client"], each["broker"]) for each in self.positions)
        found: dict[str, int] = {}
        fetched: dict[tuple[str, int], int] = {}
        for each in self.positions:
            key = each["client"], each["broker"]
            fetched[key] = max(fetched.get(key, 0), each["fetched_count"])
        for (client, broker), count in fetched.items():
            found[client] = found.get(client, 0) + max(0, count - listed[client, broker])
        return found

    def start_of(self, client: str, topic: str, partition: int) -> Answer | None:
        """Return how a client last looked for an offset to begin at; None if that is not known.

        Clients of the same id follow each other: what was before the last one joined its group is another's start.
        """
        found = self._starts_of.get((client, topic, partition))
        joined_ms, _ = self._last_joins.get(client, (0, ""))
        return None if found is None or found["at_ms"] < joined_ms else found

    @cached_property
    def asked_for_ends(self) -> set[tuple[str, str, int]]:
        """Client ids, topics and partitions for whose ends they have asked."""
        return {
            (each["client"], each["topic"], each["partition"]) for each in self.starts if each["timestamp"] == LATEST
        }

    @cached_property
    def _starts_of(self) -> dict[tuple[str, str, int], Answer]:
        found: dict[tuple[str, str, int], Answer] = {}
        for each in self.starts:
            key = each["client"], each["topic"], each["partition"]
            if key not in found or each["at_ms"] > found[key]["at_ms"]:
                found[key] = each
        return found


def owned(member: Answer) -> list[tuple[str, int]]:
    """Return the partitions that a member owns, of very many the first ones."""
    return [(each["topic"], number) for each in member["owned"] or () for number in each["partitions"]]


def names_of(group: Answer) -> dict[str, str]:
    """Return the names of members by member id: instance ids, client ids that are unique, or member ids again."""
    clients = Counter(each["client"] for each in group["members"])
    return {
        each["member_id"]: each["instance_id"]
        or (each["client"] if each["client"] and clients[each["client"]] == 1 else each["member_id"])
        for each in group["members"]
    }


def name_of(partition: Answer) -> str:
    """Return the name of the partition that a row is about: "orders-0"."""
    return f"{partition['topic']}-{partition['partition']}"
