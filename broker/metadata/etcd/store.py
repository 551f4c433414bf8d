"""The metadata store of brokers on several hosts: the cluster image as keys in etcd.

Each broker's process has an `EtcdStore`, which keeps these keys:

============================ =======================================================================================
``PREFIX/secret``            what only a broker with the cluster's secret can write, and compare (`ClusterMembership`)
``PREFIX/image/…``           the image (`broker.metadata.keys`); every commit writes ``PREFIX/image/cluster``
``PREFIX/leases/ID``         exists as long as the lease does, since it goes with it; the value is the broker's id
``PREFIX/commits/BROKER``    the number of the last commit of a broker's process, by which it knows its own again
``PREFIX/pages/BROKER``      where the broker's admin HTTP is, or was last: monitoring finds a dead broker, too
============================ =======================================================================================

A commit is one transaction: it compares the revision of ``image/cluster`` with the one that the decision was made on,
and that the lease's key exists. If no answer comes, the same transaction is sent again: either it is committed now, or
the comparison fails, and the number under ``commits`` shows whether it had been committed before.

The watch is a hint: etcd 3.4 has bugs of watches, and a connection that was cut reports nothing. The store compares
each event's revision with the one that it has, and asks etcd once a second for the revision of the image. If the watch
is behind, has ended, or was overtaken by a compaction, all keys are read anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from purgatorio.broker.metadata.etcd.requests import (
    COMPACTED,
    Etcd,
    EtcdRefused,
    EtcdUnreachable,
    FoundKey,
    Request,
    all_below,
    delete,
    encoded,
    exists,
    has_revision,
    put,
    read,
    transaction,
)
from purgatorio.broker.metadata.image import NO_LEASE, ClusterImage
from purgatorio.broker.metadata.keys import CLUSTER, UnknownFormat, all_keys, committed, last_values
from purgatorio.broker.metadata.served import Message, ServedStore, received, sent
from purgatorio.broker.metadata.view import CallSoon
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

BY_SECRET: Final = "SASL_PLAINTEXT"
"""The protocol of clusters whose key names none."""
BY_CERTIFICATES: Final = "SSL"
"""The protocol without a secret."""
_WITH_TLS: Final = (BY_CERTIFICATES, "SASL_SSL")
logger = get_logger(__name__)
PAGE_KEYS: Final = 500
"""Keys of one answer when all are read; at 500 partitions a key some 30 MB at most."""
FIRST_ANSWER_LIMIT_MS: Final = 10_000
"""How long etcd may take at the start of a broker: it may be starting, too."""
RETRY_MS: Final = 200
"""From a request without an answer to the next try."""
CHECK_INTERVAL_MS: Final = 1_000
"""From one check of the watch and the leases to the next."""
BEHIND_LIMIT_MS: Final = 1_000
"""How long the watch may take to bring a change of which this process knows."""


class ClusterMembership(NamedTuple):
    """The settings that all brokers of a cluster share.

    Attributes:
        protocol: how they speak with each other (security.inter.broker.protocol).
        proof: a value that only a broker with the cluster's secret can compute; empty if they have no secret.
    """

    protocol: str
    proof: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the text of a membership."""
        protocol, _, proof = text.partition(" ")
        return cls(protocol, proof) if protocol in _WITH_TLS else cls(BY_SECRET, text)

    def __str__(self) -> str:
        """Return the text; that of a cluster with a secret alone is the proof."""
        return self.proof if self.protocol == BY_SECRET else f"{self.protocol} {self.proof}"

    def refusal(self, found: ClusterMembership | None, root: str) -> str:
        """Return why a broker with this one cannot join the cluster below `root`, and what to set; empty if it can."""
        if found == self:
            return ""
        elsewhere = "a prefix of its own (etcd://HOST:PORT/PREFIX) to begin another cluster"
        if found is not None and found.protocol != self.protocol:
            return (
                f"the brokers of the cluster under {root} know each other by security.inter.broker.protocol="
                f"{found.protocol}, and this one has {self.protocol}: set it to the same, with the files that it needs "
                f"(docs/hosts.md), or give it {elsewhere}"
            )
        return (
            f"the cluster under {root} has another secret: give this broker the cluster.secret.file of "
            f"its other brokers, or {elsewhere}"
        )


KEEP_LIMIT_SECONDS: Final = 1.0
"""How long a member of etcd may take to renew a lease, before another one is asked."""


class StoreUnusable(Exception):
    """A broker cannot run on this store; the message says why, and what to do."""


class EtcdStore(ServedStore):
    """A broker's process's metadata store on etcd. `begin` comes first; then `run` runs until the end.

    Args:
        gateway: sends the requests.
        prefix: what all keys begin with.
        broker_id: the broker of this process.
        clock: times the tries.
        call_soon: see `ServedStore`.

    Attributes:
        last_pages: where the admin HTTP of each broker is, or was last, by broker.
    """

    def __init__(self, gateway: Etcd, prefix: str, broker_id: int, *, clock: Clock, call_soon: CallSoon) -> None:
        super().__init__(self._handle, call_soon)
        self._gateway = gateway
        self._root = f"{prefix}/"
        self._secret_key = f"{prefix}/secret"
        self._image_root = f"{prefix}/image/"
        self._cluster_key = f"{prefix}/image/{CLUSTER}"
        self._lease_root = f"{prefix}/leases/"
        self._page_root = f"{prefix}/pages/"
        self._own_commit = f"{prefix}/commits/{broker_id}"
        self._broker_id = broker_id
        self._page = ""
        self._clock = clock
        self._image_keys: set[str] = set()
        self._image_revision = 0
        self._read_revision = 0
        self._leases: set[int] = set()
        self.last_pages: dict[int, str] = {}
        self._moved = asyncio.Event()
        self._is_behind = asyncio.Event()
        self._check_now = asyncio.Event()
        self._commits: asyncio.Queue[Message] = asyncio.Queue()
        self._asked_here: set[asyncio.Task[None]] = set()

    @property
    def pages(self) -> dict[int, str]:
        """Where the admin HTTP of each broker that holds a lease is, by broker."""
        brokers = self.image.brokers
        return {
            broker_id: page
            for broker_id, page in sorted(self.last_pages.items())
            if broker_id in brokers and brokers[broker_id].lease_id in self._leases
        }

    # --- its life ---

    async def begin(self, first: ClusterImage, membership: ClusterMembership) -> None:
        """Read the image; write the first one if there is none.

        Args:
            first: the image of a new cluster.
            membership: what only a broker of this cluster can say.

        Raises:
            StoreUnusable: etcd does not answer, refuses, or has what this broker cannot use.
        """
        reason = ""
        try:
            async with time_limit(self._clock, FIRST_ANSWER_LIMIT_MS):
                while not self.has_image:
                    try:
                        await self._read_or_create(first, membership)
                    except EtcdUnreachable as error:
                        reason = str(error)
                        await self._clock.sleep(RETRY_MS)
        except TimeoutError:
            raise StoreUnusable(f"no etcd answers: {reason}; does it run, and is `store` its address?") from None
        except EtcdRefused as error:
            raise StoreUnusable(f"etcd refuses: {error}{_remedy(error)}") from None
        except (UnknownFormat, ValueError) as error:
            raise StoreUnusable(f"the keys under {self._root} cannot be used: {error}") from None

    async def _read_or_create(self, first: ClusterImage, membership: ClusterMembership) -> None:
        """Read the image; if there is none, write the first one, unless another broker is faster."""
        values = {f"{self._image_root}{key}": value.decode() for key, value in all_keys(first).items()}
        writes = [put(key, value) for key, value in {**values, self._secret_key: str(membership)}.items()]
        new = transaction([has_revision(self._cluster_key, 0)], writes, [read(self._secret_key)])
        answer = await self._gateway.call("kv/txn", new)
        if not answer.get("succeeded"):
            found = _found(answer, 0)
            refusal = membership.refusal(None if found is None else ClusterMembership.of(found.value), self._root)
            if refusal:
                raise StoreUnusable(refusal)
        await self._read()

    async def run(self) -> None:
        """Follow etcd until cancelled.

        Raises:
            StoreUnusable: a newer version has written what this one cannot read, or the keys were deleted.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(), name="etcd watch")
                tasks.create_task(self._check(), name="etcd checks")
                tasks.create_task(self._commit_all(), name="etcd commits")
        except* (UnknownFormat, StoreUnusable) as group:
            raise StoreUnusable(str(group.exceptions[0])) from None
        finally:
            for task in list(self._asked_here):
                task.cancel()
            await asyncio.gather(*self._asked_here, return_exceptions=True)

    # --- what etcd has ---

    async def _read(self) -> None:
        """Read all keys, and take what is new."""
        revision, found = await self._all_keys()
        self._leases = {lease for each in found if (lease := self._lease_of(each.key)) is not None}
        self.last_pages |= {broker: each.value for each in found if (broker := self._page_of(each.key)) is not None}
        image = {each.key: each for each in found if each.key.startswith(self._image_root)}
        if self._cluster_key not in image:
            raise StoreUnusable(f"the cluster under {self._root} is gone: its keys were deleted")
        values: dict[str, str | None] = {
            key: each.value for key, each in image.items() if each.revision > self._image_revision
        }
        values.update(dict.fromkeys(self._image_keys - image.keys()))
        self._read_revision = revision
        self._adopt(values, image[self._cluster_key].revision)

    async def _all_keys(self) -> tuple[int, list[FoundKey]]:
        """Return all keys, and the revision as of which they are."""
        found: list[FoundKey] = []
        request = all_below(self._root, limit=PAGE_KEYS)
        while True:
            try:
                answer = await self._gateway.call("kv/range", request)
            except EtcdRefused as error:
                if error.code != COMPACTED:
                    raise
                found, request = [], all_below(self._root, limit=PAGE_KEYS)
                continue
            found += map(FoundKey.of, answer.get("kvs", ()))
            request["revision"] = request.get("revision") or answer["header"]["revision"]
            if not answer.get("more"):
                return int(request["revision"]), found
            request["key"] = encoded(found[-1].key + "\0")

    def _adopt(self, values: Mapping[str, str | None], revision: int) -> None:
        """Make the next image of changed keys; None: one that is gone."""
        if revision <= self._image_revision:
            return
        self._image_revision = revision
        for key, value in values.items():
            (self._image_keys.discard if value is None else self._image_keys.add)(key)
        start = len(self._image_root)
        named = {key[start:]: None if value is None else value.encode() for key, value in values.items()}
        self.receive(["image", *sent(last_values(named)), []])
        self._moved.set()
        self._moved = asyncio.Event()

    def _lease_of(self, key: str) -> int | None:
        return int(key[len(self._lease_root) :]) if key.startswith(self._lease_root) else None

    def _page_of(self, key: str) -> int | None:
        return int(key[len(self._page_root) :]) if key.startswith(self._page_root) else None

    async def _see(self, revision: int) -> None:
        """Wait until the image of a revision is here; read it if the watch does not bring it."""
        while self._image_revision < revision:
            try:
                async with time_limit(self._clock, BEHIND_LIMIT_MS):
                    await self._moved.wait()
            except TimeoutError:
                self._is_behind.set()

    # --- following ---

    async def _follow(self) -> None:
        """Watch; read all keys anew whenever the watch has ended."""
        is_lost = False
        while True:
            try:
                await _until(self._is_behind, self._watch())
                self._is_behind.clear()
                await self._read()
                is_lost = False
            except (EtcdUnreachable, EtcdRefused) as error:
                if not is_lost:
                    is_lost = True
                    logger.warning("etcd cannot be followed", broker=self._broker_id, reason=str(error))
                self._is_behind.set()  # read first
                await self._clock.sleep(RETRY_MS)

    async def _watch(self) -> None:
        create = all_below(self._root, start_revision=str(self._read_revision + 1))
        async with contextlib.aclosing(self._gateway.watch(create)) as messages:
            async for message in messages:
                if message.get("canceled"):  # what is to come was compacted away
                    return
                self._apply(message.get("events", ()))

    def _apply(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take what a watch brings: whole revisions, in their order."""
        values: dict[str, str | None] = {}
        revision = self._image_revision
        for event in events:
            each, is_there = FoundKey.of(event["kv"]), event.get("type") != "DELETE"
            if each.key.startswith(self._image_root):
                if each.revision > self._image_revision:
                    values[each.key] = each.value if is_there else None
                    revision = each.revision
            elif (lease_id := self._lease_of(each.key)) is not None:
                if is_there:
                    self._leases.add(lease_id)
                else:
                    self._leases.discard(lease_id)
                    self._check_now.set()
            elif (broker_id := self._page_of(each.key)) is not None and is_there:
                self.last_pages[broker_id] = each.value
        if self._cluster_key in values and values[self._cluster_key] is None:
            raise StoreUnusable(f"the cluster under {self._root} is gone: its keys were deleted")
        self._adopt(values, revision)

    async def _check(self) -> None:
        """Look whether the watch is behind, and whether live brokers have lost their leases."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, CHECK_INTERVAL_MS):
                    await self._check_now.wait()
            self._check_now.clear()
            with contextlib.suppress(EtcdUnreachable, EtcdRefused):  # `_follow` reports it
                answer = await self._gateway.call("kv/range", {"key": encoded(self._cluster_key), "keys_only": True})
                kvs = answer.get("kvs")
                if kvs:
                    await self._see(int(kvs[0]["mod_revision"]))
                await self._report_lost_leases()
                await self._publish_page()

    def announce(self, page: str) -> None:
        """Publish the address of this broker's admin HTTP to the other brokers, when it holds a lease."""
        self._page = page
        self._check_now.set()

    async def _publish_page(self) -> None:
        registration = self.image.brokers.get(self._broker_id)
        if registration is None or registration.lease_id not in self._leases:
            return
        if self.last_pages.get(self._broker_id, "") != self._page:
            lease_key = f"{self._lease_root}{registration.lease_id}"
            page = put(f"{self._page_root}{self._broker_id}", self._page)
            await self._gateway.call("kv/txn", transaction([exists(lease_key)], [page]))

    async def _report_lost_leases(self) -> None:
        """Report to the view the leases of live brokers that etcd no longer has."""
        live = [each.lease_id for each in self.image.live_brokers.values() if each.lease_id != NO_LEASE]
        lost = []
        for lease_id in live:
            if lease_id not in self._leases:
                key = {"key": encoded(f"{self._lease_root}{lease_id}"), "count_only": True}
                if (await self._gateway.call("kv/range", key)).get("count"):
                    self._leases.add(lease_id)
                else:
                    lost.append(lease_id)
        if lost:
            self.receive(["image", {}, [], lost])

    # --- what the broker asks for ---

    def _handle(self, message: Message) -> None:
        """Take a message that the broker's view sends to the store."""
        match message:
            case ["commit", *_]:
                self._commits.put_nowait(message)
            case ["grant", number, ttl_ms]:
                self._start(number, self._grant(ttl_ms))
            case ["keep", number, lease_id]:
                self._start(number, self._keep(lease_id))

    def _start(self, number: int, work: Any) -> None:
        """Have something done; if etcd does not do it, nothing is answered: the broker asks again."""

        async def run() -> None:
            try:
                answer = await work
            except (EtcdUnreachable, EtcdRefused) as error:
                logger.debug("etcd did not answer", broker=self._broker_id, reason=str(error))
                self.forget_question(number)
            else:
                self.receive(["answer", number, answer])

        task = asyncio.get_running_loop().create_task(run(), name="etcd lease")
        self._asked_here.add(task)
        task.add_done_callback(self._asked_here.discard)

    async def _grant(self, ttl_ms: int) -> int:
        """Return a new lease; etcd counts whole seconds, and gives two at least."""
        granted = await self._gateway.call("lease/grant", {"TTL": str(math.ceil(ttl_ms / 1000))})
        lease_id = int(granted["ID"])
        lease = put(f"{self._lease_root}{lease_id}", str(self._broker_id), lease_id)
        await self._gateway.call("kv/put", lease["request_put"])
        self._leases.add(lease_id)
        return lease_id

    async def _keep(self, lease_id: int) -> bool:
        """Renew a lease; return False if it has ended."""
        answer = await self._gateway.call("lease/keepalive", {"ID": str(lease_id)}, KEEP_LIMIT_SECONDS)
        return int(answer["result"].get("TTL", 0)) > 0

    async def _commit_all(self) -> None:
        """Make commits one after the other, since each is compared with the one before."""
        while True:
            _, number, version, puts, deletes, lease_id = await self._commits.get()
            answer = await self._commit(version, puts, deletes, lease_id)
            self.receive(["answer", number, answer])

    async def _commit(self, version: int, puts: Mapping[str, str], deletes: list[str], lease_id: int) -> str:
        """Return ``committed``, ``conflict``, ``lease lost``, or why etcd refuses; the image is here by then."""
        if version != self.image.version:
            return "conflict"
        values, token = self._written(version, puts, deletes), secrets.token_hex(8)
        lease_key = f"{self._lease_root}{lease_id}"
        compare = [has_revision(self._cluster_key, self._image_revision)]
        if lease_id != NO_LEASE:
            compare.append(exists(lease_key))
        writes = [delete(key) if value is None else put(key, value) for key, value in values.items()]
        if writes:
            writes.append(put(self._own_commit, token))
        body = transaction(compare, writes, [read(self._cluster_key), read(self._own_commit), read(lease_key)])
        try:
            answer = await self._asked_until_answered(body)
        except EtcdRefused as error:
            return f"etcd refuses: {error}"
        if answer.get("succeeded"):
            if writes:
                self._adopt(values, int(answer["header"]["revision"]))
            return "committed"
        cluster, own, lease = (_found(answer, index) for index in range(3))
        if cluster is not None:
            await self._see(cluster.revision)
        if writes and own is not None and own.value == token:
            return "committed"
        return "lease lost" if lease_id != NO_LEASE and lease is None else "conflict"

    def _written(self, version: int, puts: Mapping[str, str], deletes: list[str]) -> dict[str, str | None]:
        """Return the keys that a commit writes, with their values; None: it deletes the key."""
        if not puts:
            return {}
        changed = committed(received(puts, deletes), version + 1)
        values: dict[str, str | None] = {
            f"{self._image_root}{key}": each.decode() for key, each in changed.puts.items()
        }
        return {**values, **dict.fromkeys(f"{self._image_root}{key}" for key in changed.deletes)}

    async def _asked_until_answered(self, body: Request) -> dict[str, Any]:
        while True:
            try:
                return await self._gateway.call("kv/txn", body)
            except EtcdUnreachable as error:
                logger.debug("a commit is not answered", broker=self._broker_id, reason=str(error))
                await self._clock.sleep(RETRY_MS)


async def _until(event: asyncio.Event, work: Any) -> None:
    """Run a coroutine until it ends, or until an event is set; raises as the coroutine."""
    if event.is_set():
        work.close()
        return
    tasks = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _found(answer: Mapping[str, Any], index: int) -> FoundKey | None:
    """Return what a read of a transaction has found."""
    kvs = answer["responses"][index]["response_range"].get("kvs")
    return FoundKey.of(kvs[0]) if kvs else None


def _remedy(error: EtcdRefused) -> str:
    if "user name is empty" in str(error):
        return " (it asks for a user and a password: etcd://USER:PASSWORD@HOST:PORT)"
    return ""
