"""An etcd in memory, as its JSON gateway shows it: what `EtcdStore` uses of it, on a clock of the test.

`tests/broker/metadata/etcd/test_store.py` runs on this one and on a real etcd, so that they cannot differ unnoticed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.metadata.etcd.requests import COMPACTED, EtcdRefused, EtcdUnreachable, decoded, encoded
from purgatorio.purgatory.clock import Clock

MAX_OPERATIONS = 128
TOO_MANY = 3


@dataclass
class Entry:
    """A key with its value."""

    value: str
    created: int
    changed: int
    lease: int


@dataclass
class FakeEtcd:
    """One etcd.

    Attributes:
        cuts: what becomes of the next requests: lost ``before`` etcd has them, or ``after`` it has done them.
        refuses: what it answers to writes; None: it does them.
    """

    clock: Clock
    revision: int = 1
    compacted: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    cuts: deque[str] = field(default_factory=deque)
    refuses: EtcdRefused | None = None
    watchers: set[asyncio.Queue[dict[str, Any]]] = field(default_factory=set)
    lease_ids: Any = field(default_factory=lambda: itertools.count(7_000))

    # --- what a broker asks for ---

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.expire()
        match path:
            case "kv/range":
                return self.range(body)
            case "kv/put":
                self.check_writes()
                return self.commit([{"request_put": body}])
            case "kv/txn":
                return self.transaction(body)
            case "lease/grant":
                lease_id, ttl = next(self.lease_ids), max(2, int(body["TTL"]))
                self.leases[lease_id] = ttl, self.clock.now_ms() + ttl * 1000
                return self.headed({"ID": str(lease_id), "TTL": str(ttl)})
            case "lease/keepalive":
                lease_id = int(body["ID"])
                if lease_id not in self.leases:
                    return {"result": self.headed({"ID": body["ID"]})}
                ttl, _ = self.leases[lease_id]
                self.leases[lease_id] = ttl, self.clock.now_ms() + ttl * 1000
                return {"result": self.headed({"ID": body["ID"], "TTL": str(ttl)})}
        raise AssertionError(path)

    def headed(self, answer: dict[str, Any]) -> dict[str, Any]:
        return {"header": {"revision": str(self.revision)}, **answer}

    def range(self, body: dict[str, Any]) -> dict[str, Any]:
        revision = int(body.get("revision", 0))
        if revision and revision < self.compacted:
            raise EtcdRefused("etcdserver: mvcc: required revision has been compacted", COMPACTED)
        assert revision in (0, self.revision), "this one keeps no old values"
        start, end = decoded(body["key"]), decoded(body["range_end"]) if "range_end" in body else None
        keys = sorted(key for key in self.entries if key == start or (end is not None and start <= key < end))
        limit = int(body.get("limit", 0)) or len(keys)
        found = [] if body.get("count_only") else keys[:limit]
        answer: dict[str, Any] = {"kvs": [self.told(key) for key in found]} if found else {}
        if keys:
            answer["count"] = str(len(keys))
        return self.headed({**answer, **({"more": True} if len(keys) > limit else {})})

    def told(self, key: str) -> dict[str, Any]:
        entry = self.entries[key]
        return {"key": encoded(key), "value": encoded(entry.value), "mod_revision": str(entry.changed)}

    def transaction(self, body: dict[str, Any]) -> dict[str, Any]:
        check_size(body, MAX_OPERATIONS)
        if all(map(self.holds, body["compare"])):
            if body["success"]:
                self.check_writes()
            return {**self.commit(body["success"]), "succeeded": True}
        return self.headed(
            {"responses": [{"response_range": self.range(each["request_range"])} for each in body["failure"]]}
        )

    def holds(self, compare: dict[str, Any]) -> bool:
        entry = self.entries.get(decoded(compare["key"]))
        if compare["target"] == "CREATE":
            assert compare["result"] == "GREATER"
            return (entry.created if entry else 0) > int(compare["create_revision"])
        return (entry.changed if entry else 0) == int(compare["mod_revision"])

    def check_writes(self) -> None:
        if self.refuses is not None:
            raise self.refuses

    def commit(self, operations: list[dict[str, Any]]) -> dict[str, Any]:
        flat = list(flattened(operations))
        if flat:
            self.revision += 1
            self.tell([self.written(operation) for operation in flat])
        return self.headed({})

    def written(self, operation: dict[str, Any]) -> dict[str, Any]:
        if "request_delete_range" in operation:
            return self.deleted(decoded(operation["request_delete_range"]["key"]))
        put = operation["request_put"]
        key, lease = decoded(put["key"]), int(put.get("lease", 0))
        if lease and lease not in self.leases:
            raise EtcdRefused("etcdserver: requested lease not found", 5)
        known = self.entries.get(key)
        self.entries[key] = Entry(
            decoded(put["value"]), known.created if known else self.revision, self.revision, lease
        )
        return {"kv": self.told(key)}

    def deleted(self, key: str) -> dict[str, Any]:
        self.entries.pop(key, None)
        return {"type": "DELETE", "kv": {"key": encoded(key), "mod_revision": str(self.revision)}}

    def tell(self, events: list[dict[str, Any]]) -> None:
        self.events += events
        for queue in self.watchers:
            queue.put_nowait(self.headed({"events": events}))

    # --- what happens to it ---

    def expire(self) -> None:
        """End the leases whose time is over, with their keys."""
        now_ms = self.clock.now_ms()
        gone = {lease for lease, (_, ends_ms) in self.leases.items() if ends_ms <= now_ms}
        for lease in gone:
            del self.leases[lease]
        keys = [key for key, entry in self.entries.items() if entry.lease in gone]
        if keys:
            self.revision += 1
            self.tell([self.deleted(key) for key in keys])

    def compact(self) -> None:
        """Forget what has happened up to now."""
        self.events.clear()
        self.compacted = self.revision

    def compact_and_go_on(self) -> None:
        """Write something else, and forget what was before it."""
        self.revision += 1
        self.compact()

    def break_watches(self) -> None:
        """Cut the connections of all watches."""
        for queue in self.watchers:
            queue.put_nowait({"broken": True})


class FakeGateway:
    """One broker's way to a `FakeEtcd`.

    Attributes:
        is_cut: whether no request arrives.
        is_deaf: whether watches bring nothing, without an end.
        calls: the paths of all requests.
        then: what happens after the next request with a path.
    """

    def __init__(self, etcd: FakeEtcd) -> None:
        self.etcd = etcd
        self.is_cut = False
        self.is_deaf = False
        self.calls: list[str] = []
        self.then: dict[str, Callable[[], None]] = {}

    async def call(self, path: str, body: dict[str, Any], limit_seconds: float = 0) -> dict[str, Any]:
        await asyncio.sleep(0)
        self.calls.append(path)
        cut = self.etcd.cuts.popleft() if self.etcd.cuts else ""
        if self.is_cut or cut == "before":
            raise EtcdUnreachable("cut")
        answer = self.etcd.answer(path, body)
        self.then.pop(path, lambda: None)()
        await asyncio.sleep(0)
        if cut == "after":
            raise EtcdUnreachable("cut")
        return answer

    async def watch(self, create: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        if self.is_cut:
            raise EtcdUnreachable("cut")
        etcd, start = self.etcd, int(create["start_revision"])
        if start <= etcd.compacted:
            yield {"canceled": True, "compact_revision": str(etcd.compacted)}
            return
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        past = [event for event in etcd.events if int(event["kv"]["mod_revision"]) >= start]
        etcd.watchers.add(queue)
        try:
            yield {"created": True, **({"events": past} if past else {})}
            while True:
                message = await queue.get()
                if message.get("broken") or self.is_cut:
                    raise EtcdUnreachable("broken")
                if not self.is_deaf:
                    yield message
        finally:
            etcd.watchers.discard(queue)


def flattened(operations: list[dict[str, Any]]) -> Any:
    for operation in operations:
        if "request_txn" in operation:
            yield from flattened(operation["request_txn"]["success"])
        else:
            yield operation


def check_size(body: dict[str, Any], left: int) -> None:
    count = max(len(body.get("compare", ())), len(body["success"]), len(body.get("failure", ())))
    if count > left:
        raise EtcdRefused("etcdserver: too many operations in txn request", TOO_MANY)
    for operation in body["success"]:
        if "request_txn" in operation:
            check_size(operation["request_txn"], left - count)
