"""The cluster image as keys with bytes, for a metadata store outside of the brokers' processes.

A commit writes the keys that it changed, and `CLUSTER`, whose version a store compares. A watch brings changed keys,
from which `applied` makes the next image at a cost that follows the change: what did not change keeps its objects.

========================== =========================================================================================
``cluster``                the format, the version, and the counters of the image
``brokers/1``              a registration
``topics/orders``          a topic's id, its configs, the number of its partitions, and the first `PAGE_PARTITIONS`
``topics/orders/1``        the next page of them
``configs/broker/1``       dynamic configs of a broker; ``configs/broker/`` of all brokers
``configs/group/billing``  configs of a group
``quotas/user=alice``      the client quotas of an entity: user, client-id, ip
``acls/2/orders/…``        one ACL by its fields, with its place among all: the order of their creation
``scram/1/alice``          a SCRAM credential, by the mechanism's code
========================== =========================================================================================

Names that clients choose are percent-encoded. Values are JSON.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.metadata.clients import QuotaEntity, ScramCredential, ScramMechanism, ScramUser
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import (
    NO_LEASE,
    BrokerIncarnation,
    BrokerRegistration,
    ClusterImage,
    Endpoint,
    PartitionState,
    Topic,
)

FORMAT: Final = 1
"""The version of what is written here. A reader refuses what a newer one wrote."""
CLUSTER: Final = "cluster"
PAGE_PARTITIONS: Final = 500
"""Partitions of a topic in one key, so that the change of one rewrites at most 64 KB."""


class UnknownFormat(Exception):
    """The keys were written by a newer version, or are not those of a cluster."""


class KeyChanges(NamedTuple):
    """Changed keys: those that a commit writes, or that a watch reports.

    Attributes:
        puts: the values of new and changed keys.
        deletes: the keys that are gone.
    """

    puts: Mapping[str, bytes]
    deletes: tuple[str, ...] = ()


# --- from images to keys ---


def all_keys(image: ClusterImage) -> dict[str, bytes]:
    """Return all keys of an image, with their values."""
    empty = ClusterImage(version=-1, cluster_id=image.cluster_id)
    return dict(changes(empty, image).puts)


def changes(before: ClusterImage, after: ClusterImage) -> KeyChanges:
    """Return what differs between two images, one of which was derived from the other, as keys.

    `CLUSTER` is always among the puts. If `after` was not committed yet, it has the version of `before` there, until
    the store knows the next one (`committed`).
    """
    puts = {CLUSTER: _cluster(after)}
    deletes: list[str] = []
    for name in _touched_topics(before, after):
        _topic_changes(before.topics.get(name), after.topics.get(name), puts, deletes)
    for was, now, entry in (
        (before.brokers, after.brokers, _broker),
        (before.broker_configs, after.broker_configs, _broker_configs),
        (before.group_configs, after.group_configs, _group_configs),
        (before.client_quotas, after.client_quotas, _quotas),
        (before.scram_credentials, after.scram_credentials, _credential),
    ):
        _mapping_changes(was, now, entry, puts, deletes)
    _acl_changes(before, after, puts, deletes)
    return KeyChanges(puts, tuple(deletes))


def committed(changed: KeyChanges, version: int) -> KeyChanges:
    """Return the changes of a decision with the version that the store commits them as."""
    head = {**json.loads(changed.puts[CLUSTER]), "version": version}
    return KeyChanges({**changed.puts, CLUSTER: _bytes(head)}, changed.deletes)


def last_values(values: Mapping[str, bytes | None]) -> KeyChanges:
    """Return the changes of keys whose last values are given: None for one that is gone."""
    puts = {key: value for key, value in values.items() if value is not None}
    return KeyChanges(puts, tuple(key for key, value in values.items() if value is None))


def _touched_topics(before: ClusterImage, after: ClusterImage) -> Iterable[str]:
    if before.version == after.version and not before.edits:
        return after.edits
    return [delta.name for delta in changed_topics(before, after)]


def _topic_changes(was: Topic | None, now: Topic | None, puts: dict[str, bytes], deletes: list[str]) -> None:
    pages_before = 0 if was is None else _pages(len(was.partitions))
    if now is None:
        assert was is not None
        deletes += [_page_key(was.name, page) for page in range(pages_before)]
        return
    pages = _pages(len(now.partitions))
    same = was is not None and was.topic_id == now.topic_id
    for page in range(pages):
        rows = _rows_of(now, page)
        is_known = same and was is not None and _rows_of(was, page) == rows
        if page == 0 and is_known and was is not None:
            is_known = was.configs == now.configs and len(was.partitions) == len(now.partitions)
        if not is_known:
            head = {"id": now.topic_id.hex(), "configs": dict(now.configs), "count": len(now.partitions)}
            puts[_page_key(now.name, page)] = _bytes({**(head if page == 0 else {}), "rows": [*map(_row, rows)]})
    deletes += [_page_key(now.name, page) for page in range(pages, pages_before)]


def _pages(count: int) -> int:
    return max(1, -(-count // PAGE_PARTITIONS))


def _page_key(name: str, page: int) -> str:
    return f"topics/{name}" if page == 0 else f"topics/{name}/{page}"


def _rows_of(topic: Topic, page: int) -> tuple[PartitionState, ...]:
    return topic.partitions[page * PAGE_PARTITIONS : (page + 1) * PAGE_PARTITIONS]


def _row(state: PartitionState) -> list[Any]:
    """Return a partition's state as a list, without what is empty at its end."""
    row: list[Any] = [
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.replicas,
        state.isr,
        state.elr,
        state.adding,
        state.removing,
    ]
    while not row[-1] and len(row) > 5:
        row.pop()
    return row


def _mapping_changes(was: Mapping[Any, Any], now: Mapping[Any, Any], entry: Any, puts: Any, deletes: Any) -> None:
    """Add what differs between two mappings; `entry` makes a key, and its value, of one of their items."""
    if was is now:
        return
    for key, value in now.items():
        known = was.get(key)
        if known is not value and known != value:
            name, content = entry(key, value)
            puts[name] = _bytes(content)
    deletes += [entry(key, value)[0] for key, value in was.items() if key not in now]


def _broker(broker_id: int, registration: BrokerRegistration) -> tuple[str, Any]:
    return f"brokers/{broker_id}", {
        "epoch": registration.broker_epoch,
        "endpoints": registration.endpoints,
        "rack": registration.rack,
        "lease": registration.lease_id,
        "fenced": registration.fenced,
    }


def _broker_configs(name: str, configs: Mapping[str, str]) -> tuple[str, Any]:
    return f"configs/broker/{quote(name, safe='')}", dict(configs)


def _group_configs(name: str, configs: Mapping[str, str]) -> tuple[str, Any]:
    return f"configs/group/{quote(name, safe='')}", dict(configs)


_QUOTA_FIELDS: Final = (("user", "user"), ("client-id", "client_id"), ("ip", "ip"))
"""The parts of an entity: in a key, and in `QuotaEntity`."""


def _quotas(entity: QuotaEntity, values: Mapping[str, float]) -> tuple[str, Any]:
    given = ((name, getattr(entity, field)) for name, field in _QUOTA_FIELDS)
    parts = [f"{name}={quote(value, safe='')}" for name, value in given if value is not None]
    return f"quotas/{'&'.join(parts)}", dict(values)


def _credential(user: ScramUser, credential: ScramCredential) -> tuple[str, Any]:
    secrets = (credential.salt, credential.stored_key, credential.server_key)
    key = f"scram/{int(user.mechanism)}/{quote(user.name, safe='')}"
    return key, [*(b64encode(each).decode() for each in secrets), credential.iterations]


def _acl_changes(before: ClusterImage, after: ClusterImage, puts: dict[str, bytes], deletes: list[str]) -> None:
    if before.acls is after.acls:
        return
    added = (binding for binding in after.acls if binding not in before.acls)
    for place, binding in enumerate(added):
        puts[_acl_key(binding)] = _bytes([before.version + 1, place])
    deletes += [_acl_key(binding) for binding in before.acls if binding not in after.acls]


def _acl_key(binding: AclBinding) -> str:
    fields = (str(int(field)) if isinstance(field, int) else quote(field, safe="*:") for field in binding)
    return "/".join(("acls", *fields))


def _cluster(image: ClusterImage) -> bytes:
    return _bytes(
        {
            "format": FORMAT,
            "version": image.version,
            "cluster_id": image.cluster_id,
            "controller_id": image.controller_id,
            "controller_epoch": image.controller_epoch,
            "next_producer_id": image.next_producer_id,
            "next_broker_epoch": image.next_broker_epoch,
        }
    )


def _bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# --- from keys to images ---


def image_of(keys: Mapping[str, bytes]) -> ClusterImage:
    """Return the image that all keys of a cluster make.

    Raises:
        UnknownFormat: a newer version wrote them, or `CLUSTER` is not among them.
    """
    if CLUSTER not in keys:
        raise UnknownFormat("the store holds no cluster")
    cluster_id = _head(keys[CLUSTER])["cluster_id"]
    return applied(ClusterImage(version=-1, cluster_id=cluster_id), KeyChanges(keys))


def applied(image: ClusterImage, changed: KeyChanges) -> ClusterImage:
    """Return the next image: `image` with what commits changed, one or several of them, whole.

    Args:
        changed: the last value of each changed key, `CLUSTER` among them.

    Raises:
        UnknownFormat: a newer version wrote them.
    """
    head = _head(changed.puts[CLUSTER])
    sections = _by_section(changed)
    topics = sections.get("topics", {})
    if topics:
        image = _with_topics(image, topics)
    fields: dict[str, Any] = {}
    for section, field, parse in (
        ("brokers", "brokers", _parse_broker),
        ("configs/broker", "broker_configs", _parse_configs),
        ("configs/group", "group_configs", _parse_configs),
        ("quotas", "client_quotas", _parse_quotas),
        ("scram", "scram_credentials", _parse_credential),
    ):
        if section in sections:
            fields[field] = _with_entries(getattr(image, field), sections[section], parse)
    if "brokers" in fields:
        fields["brokers"] = dict(sorted(fields["brokers"].items()))
    if "acls" in sections:
        fields["acls"] = _with_acls(image.acls, sections["acls"])
    counters = {name: value for name, value in head.items() if name not in ("format", "version")}
    return replace(image, **fields, **counters).with_version(head["version"])


def _head(value: bytes) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(value)
    if head["format"] > FORMAT:
        raise UnknownFormat(f"the keys have format {head['format']}; this version knows formats up to {FORMAT}")
    return head


_Section = dict[str, bytes | None]
"""Changed keys of one section, without its name; None for those that are gone."""


def _by_section(changed: KeyChanges) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    for key, value in _items(changed):
        section, _, rest = key.partition("/")
        if section == "configs":
            kind, _, rest = rest.partition("/")
            section = f"configs/{kind}"
        if rest or section != CLUSTER:
            sections.setdefault(section, {})[rest] = value
    return sections


def _items(changed: KeyChanges) -> Iterator[tuple[str, bytes | None]]:
    for key in changed.deletes:
        yield key, None
    yield from changed.puts.items()


def _with_topics(image: ClusterImage, entries: _Section) -> ClusterImage:
    pages: dict[str, dict[int, bytes]] = {}
    gone = []
    for key, value in entries.items():
        name, _, page = key.partition("/")
        if value is not None:
            pages.setdefault(name, {})[int(page or 0)] = value
        elif not page:
            gone.append(name)
    if gone:
        image = image.without_topics(gone)
    return image.with_topics([_topic(image.topics.get(name), name, found) for name, found in pages.items()])


def _topic(was: Topic | None, name: str, pages: Mapping[int, bytes]) -> Topic:
    """Return a topic of which these pages changed; rows that are as they were are the same objects."""
    parsed = {page: json.loads(value) for page, value in sorted(pages.items())}
    head = parsed.get(0)
    if head is None:
        assert was is not None  # its first page was there before
        topic_id, configs, count = was.topic_id, was.configs, len(was.partitions)
    else:
        topic_id, configs, count = bytes.fromhex(head["id"]), head["configs"], head["count"]
    known = was.partitions if was is not None and was.topic_id == topic_id else ()
    if was is not None and known and was.configs == configs:
        configs = was.configs
    rows: list[PartitionState] = []
    for page in range(_pages(count)):
        start = page * PAGE_PARTITIONS
        before = known[start : start + PAGE_PARTITIONS]
        if page not in parsed:
            rows += before
            continue
        for index, row in enumerate(parsed[page]["rows"]):
            state = _parse_row(row)
            rows.append(before[index] if index < len(before) and before[index] == state else state)
    return Topic(name, topic_id, tuple(rows[:count]), configs)


def _parse_row(row: list[Any]) -> PartitionState:
    leader, leader_epoch, partition_epoch, replicas, isr, *more = row
    elr, adding, removing = more + [[]] * (3 - len(more))
    return PartitionState(
        leader,
        leader_epoch,
        tuple(replicas),
        tuple(BrokerIncarnation(*each) for each in isr),
        partition_epoch,
        tuple(BrokerIncarnation(*each) for each in elr),
        tuple(adding),
        tuple(removing),
    )


def _with_entries(was: Mapping[Any, Any], entries: _Section, parse: Any) -> dict[Any, Any]:
    now = dict(was)
    for key, value in entries.items():
        name, content = parse(key, None if value is None else json.loads(value))
        if value is None:
            now.pop(name, None)
        else:
            now[name] = content
    return now


def _parse_broker(key: str, value: Any) -> tuple[int, BrokerRegistration | None]:
    if value is None:
        return int(key), None
    endpoints = tuple(Endpoint(*each) for each in value["endpoints"])
    lease = value.get("lease", NO_LEASE)
    return int(key), BrokerRegistration(int(key), value["epoch"], endpoints, value["rack"], lease, value["fenced"])


def _parse_configs(key: str, value: Any) -> tuple[str, Any]:
    return unquote(key), value


def _parse_quotas(key: str, value: Any) -> tuple[QuotaEntity, Any]:
    given = dict(part.split("=", 1) for part in key.split("&"))
    fields = {field: unquote(given[name]) for name, field in _QUOTA_FIELDS if name in given}
    return QuotaEntity(**fields), value


def _parse_credential(key: str, value: Any) -> tuple[ScramUser, ScramCredential | None]:
    mechanism, _, name = key.partition("/")
    user = ScramUser(unquote(name), ScramMechanism(int(mechanism)))
    if value is None:
        return user, None
    salt, stored_key, server_key, iterations = value
    return user, ScramCredential(b64decode(salt), b64decode(stored_key), b64decode(server_key), iterations)


def _with_acls(was: Mapping[AclBinding, None], entries: _Section) -> dict[AclBinding, None]:
    """Return the ACLs in the order of their creation; new ones follow those that were there."""
    now = dict(was)
    added: list[tuple[list[int], AclBinding]] = []
    for key, value in entries.items():
        binding = _parse_acl(key)
        now.pop(binding, None)
        if value is not None:
            added.append((json.loads(value), binding))
    added.sort(key=lambda entry: entry[0])
    return now | dict.fromkeys(binding for _, binding in added)


def _parse_acl(key: str) -> AclBinding:
    kind, name, pattern, principal, host, operation, permission = map(unquote, key.split("/"))
    return AclBinding(
        ResourceType(int(kind)),
        name,
        PatternType(int(pattern)),
        principal,
        host,
        AclOperation(int(operation)),
        PermissionType(int(permission)),
    )
