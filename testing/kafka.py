"""`Kafka`: a cluster in a thread of its own, with controls that any test can call."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from purgatorio.testing import open_clusters
from purgatorio.testing.access_controls import AccessControls
from purgatorio.testing.clients import Library, Role, client_config
from purgatorio.testing.clock import KafkaClock
from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.options import ClusterOptions, FaultSource, TierPlace, text
from purgatorio.testing.registry import RegistryBeside
from purgatorio.testing.share_groups import ShareGroup
from purgatorio.testing.tier import KafkaTier
from purgatorio.testing.values import record_bytes
from purgatorio.testing.waiting import WAIT_SECONDS, Waiting

if TYPE_CHECKING:
    # Tests import `Kafka` for their annotations: the broker is imported by the first cluster, not by this module.
    from purgatorio.broker.cluster.snapshots import Snapshot
    from purgatorio.registry.kinds import RegistryTarget
    from purgatorio.registry.process import SchemaRegistry
    from purgatorio.testing.backend import Backend
    from purgatorio.testing.keywords import BrokerSettings, TopicConfigs
    from purgatorio.testing.values import Group, IsolationLevel, Parked, Record

CLIENT_ID: Final = "purgatorio.testing"
"""The client id of the records of `Kafka.produce`, while they wait."""
REPORT_TIMEOUT_SECONDS: Final = 1.0
"""A report of a cluster that hangs must not hold up the tests behind it."""


class Kafka(AccessControls):
    """A running cluster. Every method may be called from any thread, and from sync and async tests alike.

    Args:
        options: what the test asks of the cluster.

    Attributes:
        bootstrap: the brokers' addresses, for a client's `bootstrap.servers`.
        clock: the brokers' time, which the test can move: ``kafka.clock.advance(30)``.
        tier: the object store of a cluster that was started with one: ``kafka.tier.offload("orders")``.

    Raises:
        ValueError: a setting is unknown, or its value is not allowed; a fault rule cannot be; or a topic is refused.
        RuntimeError: the brokers cannot start; the message says why.
    """

    def __init__(self, options: ClusterOptions | None = None) -> None:
        from purgatorio.broker.time import garbage

        options = options or ClusterOptions()
        with garbage.paused(then_old=True):
            start = _start_of(options)
        self._security = options.security
        self._thread = LoopThread()
        try:
            self._backend = self._thread.run(start, "start the cluster")
        except OSError as error:
            raise RuntimeError(f"the Kafka cluster did not start: {error}") from error
        self.bootstrap: str = self._backend.bootstrap
        ports = tuple(int(address.rpartition(":")[2]) for address in self.bootstrap_servers)
        self._opened = open_clusters.opened(self.close, lambda: self.admin_url, ports)
        self.clock = KafkaClock(self._thread, self._backend)
        self.tier = KafkaTier(self._thread, self._backend)
        self._registry = RegistryBeside(self._as_target)
        self._broker_count = options.brokers

    def __repr__(self) -> str:
        return f"<Kafka {self.bootstrap}>"

    @property
    def bootstrap_servers(self) -> list[str]:
        """The brokers' addresses as a list, for clients that want one."""
        return self.bootstrap.split(",")

    def client_config(self, library: Library, role: Role | None = None, *, user: str | None = None) -> dict[str, Any]:
        """Return settings with which a client of this cluster needs milliseconds where others need seconds.

        They have the addresses, and for consumers a short heartbeat interval: a member learns by its heartbeat that its
        group rebalances. Producers give up a record after 10 s, and consumers a session: a ``with Producer(…)`` whose
        cluster was stopped, or holds a follower, ends then, not after minutes. A client's behaviour does not change:
        set `auto.offset.reset` and the like yourself::

            Consumer(kafka.client_config("confluent", "consumer") | {"group.id": "billing"})
            AIOKafkaProducer(**kafka.client_config("aiokafka"))

        Args:
            library: "confluent" (and others over librdkafka), "aiokafka", "kafka-python"; "faststream": keywords of
                `KafkaBroker`, and with the role "consumer" those of its subscribers; "java": properties, as text.
            role: "consumer", "producer" or "admin"; not given: settings that all of them know, also for share consumers
                and consumers with `group.protocol=consumer`, whose heartbeats and sessions the brokers set.
            user: who the client is: the principal ``User:…`` of this name. With SASL one of the cluster's users, by
                default the first; with TLS alone any name, which its certificate has, by default none.

        Raises:
            ValueError: the library or the role is unknown, or the cluster knows no users.
        """
        return client_config(library, role, self.bootstrap, self._security, user)

    @property
    def admin_url(self) -> str:
        """The URL of the page, which shows what waits, and of the HTTP API; they are served from the first use on."""
        return self._thread.run(self._backend.admin_url(), "start the admin HTTP")

    @property
    def schema_registry(self) -> SchemaRegistry:
        """The schema registry beside the cluster, with its `url`. The first use starts it, in some seconds.

        ::

            SchemaRegistryClient(kafka.schema_registry.client_config())

        It is the one that ``purgatorio registry install`` has installed, and keeps its schemas in the cluster. `reset`
        and `restore` start it anew, without schemas, or with those of the snapshot, at the same address.

        Raises:
            RuntimeError: none is installed, it does not start, or it cannot log in to this cluster, with a sentence.
        """
        return self._registry.running()

    def _as_target(self, port: int) -> RegistryTarget:
        from purgatorio.registry.kinds import LOOPBACK, RegistryTarget
        from purgatorio.testing.registry import login_of

        login = login_of(self.client_config("confluent"))
        return RegistryTarget(self.bootstrap, self._broker_count, LOOPBACK, port, login)

    # --- topics and records ---

    def topic(self, name: str, *, partitions: int = 1, replicas: int = -1, **configs: Unpack[TopicConfigs]) -> str:
        """Create a topic; return its name when it can be written to.

        Args:
            replicas: -1: three, or as many as there are brokers.
            configs: topic configs by Kafka's names, with underscores for dots: ``cleanup_policy="compact"``.

        Raises:
            ValueError: the brokers refuse it.
        """
        named = {key.replace("_", "."): text(value) for key, value in configs.items()}
        self._thread.run(self._controls.topic(name, partitions, replicas, named), f"create topic {name!r}")
        return name

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append records with acks=all, without a client; return the offset of the first.

        Raises:
            ValueError: the partition does not exist, or the broker refuses the records.
            TimeoutError: the in-sync replicas do not have them in time.
        """
        from purgatorio.admin.operations.record_json import JsonRecord
        from purgatorio.admin.operations.records import MAX_RECORDS, ProduceRecords

        key, pairs = record_bytes(key), tuple((headers or {}).items())
        records = [JsonRecord(key, record_bytes(value), pairs, timestamp_ms, partition) for value in values]
        offsets = []
        for start in range(0, max(1, len(records)), MAX_RECORDS):
            append = ProduceRecords.of(topic, records[start : start + MAX_RECORDS], CLIENT_ID)
            offsets += self._do(append, f"produce to {topic}-{partition}")["records"]
        return int(offsets[0]["offset"])

    def records(
        self, topic: str, partition: int | None = None, *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> list[Record]:
        """Return the committed records of a topic, by partition and offset, without a client.

        It waits some milliseconds for followers that have yet to fetch records which a client sent with acks=1, and for
        the markers of transactions that a client has ended.

        Args:
            topic, partition: of this partition only, or of all.
            isolation_level: "read_committed" leaves out the records of transactions that were aborted, and those from
                the first open transaction on; by default they are there, as for Kafka's consumers (isolation.level).

        Raises:
            ValueError: the topic or partition does not exist, or has no leader now; or the isolation level is none.
        """
        return self._thread.run(self._controls.records(topic, partition, isolation_level), f"read {topic!r}")

    # --- what waits ---

    def parked(
        self,
        *,
        api: str | None = None,
        topic: str | None = None,
        client: str | None = None,
        group: str | None = None,
    ) -> list[Parked]:
        """Return what waits in the brokers' purgatories.

        Args:
            api: of this purgatory only: "Produce", "Fetch", "Rebalance", "Transaction" …
            topic: what watches this topic or a partition of it.
            client: requests of this client id.
            group: requests of this group's members, by their client ids, and its joins and syncs.

        Raises:
            ValueError: there is no such purgatory; those that there are are named, the nearest first.
        """
        return self._thread.run(self._controls.parked(api, topic, client, group), "list what is parked")

    def until_parked(
        self,
        *,
        api: str | None = None,
        topic: str | None = None,
        client: str | None = None,
        group: str | None = None,
        timeout_seconds: float = WAIT_SECONDS,
    ) -> Waiting[list[Parked]]:
        """Wait, with ``await`` or ``.wait()``, until something of that description waits."""

        named = ((topic, "of"), (client, "of"), (group, "of group"))
        what = f"a parked {api or 'operation'}" + "".join(f" {words} {name}" for name, words in named if name)
        found = self._controls.until_parked(api, topic, client, group)
        return Waiting(self._thread.start(found, what), what, timeout_seconds)

    def group(self, name: str) -> Group | None:
        """Return a consumer group, as its coordinator has it; None if it does not exist."""
        return self._thread.run(self._controls.group(name), f"find group {name!r}")

    def share_group(self, name: str) -> ShareGroup:
        """Return a share group: its records in flight, and the locks under which members have them (KIP-932).

        The group need not exist yet: a member that joins makes it.
        """
        return ShareGroup(name, self._thread, self._backend)

    def until(
        self,
        *,
        group: str,
        state: str | None = None,
        members: int | None = None,
        timeout_seconds: float = WAIT_SECONDS,
    ) -> Waiting[Group]:
        """Wait, with ``await`` or ``.wait()``, until a consumer group has a state and a number of members.

        ``await kafka.until(group="billing", state="Stable", members=2)``

        Args:
            group: its id.
            state: as Kafka names it, in any case: "Stable", "Empty", "PreparingRebalance" …; None: any.
            members: how many; None: any number.
            timeout_seconds: the longest wait.

        Raises:
            ValueError: when it is waited for: no group ever has such a state.
        """
        wanted = " ".join([state or "", *([] if members is None else [f"with {members} members"])]).strip()
        what = f"group {group} {wanted or 'to exist'}"
        found = self._controls.until_group(group, state, members)
        return Waiting(self._thread.start(found, what), what, timeout_seconds)

    def until_in_sync(self, topic: str, *, timeout_seconds: float = WAIT_SECONDS) -> Waiting[None]:
        """Wait, with ``await`` or ``.wait()``, until all replicas of a topic are in sync."""
        what = f"all replicas of {topic} in sync"
        return Waiting(self._thread.start(self._controls.until_in_sync(topic), what), what, timeout_seconds)

    def expire(self, operation: Parked) -> None:
        """Have the deadline of a parked operation come now: its client gets the answer of a request that timed out.

        ``kafka.expire(kafka.until_parked(api="Produce").wait()[0])``

        Raises:
            ValueError: it does not wait any more.
        """
        from purgatorio.admin.operations.purgatories import Expire

        try:
            self.do(Expire(operation.broker, operation.purgatory, operation.id))
        except ValueError:
            what = f"{operation.purgatory} operation {operation.id} of broker {operation.broker}"
            raise ValueError(f"{what} does not wait any more") from None

    def expire_member(self, group: str, member: str | None = None) -> str:
        """End the session of a group's member now, as if its heartbeats had stayed away; return its member id.

        Args:
            group: the group.
            member: its member id or its client id; None: the only member.

        Raises:
            ValueError: there is no such member, or more than one; or the member waits for the coordinator's answer,
                which keeps it alive.
        """
        from purgatorio.admin.operations.groups import ExpireMember

        return str(self.do(ExpireMember(group, member))["member"])

    def expire_transaction(self, transactional_id: str) -> None:
        """End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it.

        Raises:
            ValueError: there is no such transactional id, it has no open transaction, or its coordinator does not run.
        """
        from purgatorio.admin.operations.transactions import ExpireTransaction

        self.do(ExpireTransaction(transactional_id))

    @property
    def clients(self) -> list[str]:
        """The client ids that are connected now, without the brokers' own."""
        return self._thread.run(self._controls.clients(), "list the clients")

    def left_open(self, except_for: Collection[str] = (), patience_seconds: float = 0.05) -> list[str]:
        """Return the client ids that stay connected for so long; at once when only these exceptions are.

        Clients of the schema registry are left out.
        """
        own = self._registry.own(self.clients)
        gone = self._controls.clients_gone({*except_for, *own}, patience_seconds)
        return self._thread.run(gone, "wait for clients to leave")

    def report(self) -> str:
        """Return what the cluster waits for, as text of at most 50 lines; a failed test shows it.

        It has the brokers, the connected clients, the parked operations with what they miss, and the last changes of
        leaders and in-sync replicas.
        """
        from purgatorio.admin.operations.why import Facts
        from purgatorio.testing.report import report

        self._backend.load([Facts])
        facts = self._thread.run(self._backend.ask(Facts()), "make the report", REPORT_TIMEOUT_SECONDS)
        return report(facts, self._backend.timeline)

    def explain(self, name: str = "") -> str:
        """Return why a group, a topic or a client gets nothing, as text: sentences first, then what there is of it.

        ``print(kafka.explain("billing"))``

        Args:
            name: the id of a group or client, or the name of a topic; not given: all.

        Raises:
            ValueError: there is no group, topic or client of that name.
        """
        from purgatorio.admin.operations.why import Why

        return str(self._do(Why(name or None), f"explain {name or 'the cluster'}")["text"])

    # --- the end ---

    def snapshot(self) -> Snapshot:
        """Return what the cluster has now, for `restore`; takes milliseconds, and copies no record.

        It has topics with their configs, committed records, groups with members and committed offsets, producers with
        their sequences, and transactions. It has no connections, parked requests, held or fenced brokers, faults, or
        time; nor records that are not committed yet.

        Raises:
            ValueError: a partition has no leader now.
        """
        return self._refusable(self._cluster.snapshot, "take a snapshot")

    def restore(self, snapshot: Snapshot) -> None:
        """Make the cluster as it was at a snapshot; takes milliseconds for a small one. It can be restored again.

        Beyond that it is as after `reset`: all brokers run, and clients lose their connections. Those that live on
        connect again; members of a group that were in it at the snapshot are in it again.

        Raises:
            ValueError: the snapshot is of a cluster with other brokers.
        """
        self._run(self._cluster.restore(snapshot), "restore a snapshot")
        self._registry.restart()

    def reset(self) -> None:
        """Make the cluster as it was at its start, at the same addresses; takes a few milliseconds.

        All brokers run, none is held, topics, groups, producers, transactions, configs and fault rules are gone, and
        the topics of the options are empty; the options' fault rules count from zero. Clients lose their connections;
        those that live on connect again. Use it between the examples of a `hypothesis` test, which share a fixture.
        A schema registry that a test has used is started anew, which takes some seconds.
        """
        from purgatorio.admin.operations.snapshots import Reset

        self._do(Reset(), "reset the cluster")
        self._registry.restart()

    @property
    def is_usable(self) -> bool:
        """Whether the cluster is open, and was opened by this process: a forked child cannot use its parent's."""
        return self._thread.is_usable

    def close(self) -> None:
        """End the cluster at once: clients lose their connections, and calls that wait in other threads fail.

        May be called again. In a forked child it does nothing: the cluster is the parent's.
        """
        if self.is_usable:
            open_clusters.closed(self._opened)
            self._registry.stop()
            self._thread.end(self._backend.end(), "end the cluster")


def _start_of(options: ClusterOptions) -> Coroutine[Any, Any, Backend]:
    """Return what starts the cluster that the options describe; a ValueError if they cannot be."""
    config = options.config()
    if options.processes:
        options.check_processes()
        from purgatorio.testing.over_http import OverHttp

        return _with_topics(OverHttp.start(config), options.topics)
    from purgatorio.testing.in_loop import InLoop

    if options.topics:
        from purgatorio.admin.operations.topics import CreateTopic

        InLoop.load([CreateTopic])
    return InLoop.start(config, options.topics, options.rules(), options.access())


async def _with_topics(starting: Awaitable[Backend], topics: Mapping[str, int]) -> Backend:
    """Have a cluster start, and make topics; it is ended again if that fails."""
    from purgatorio.testing.controls import Controls

    backend = await starting
    try:
        for name, partitions in topics.items():
            await Controls(backend).topic(name, partitions, -1, {})
    except BaseException:
        await backend.end()
        raise
    return backend


@contextlib.contextmanager
def cluster(
    *,
    brokers: int = 3,
    racks: Sequence[str] = (),
    topics: Mapping[str, int] | None = None,
    faults: FaultSource | Sequence[FaultSource] = (),
    tls: bool = False,
    sasl: str | None = None,
    acls: Sequence[str] | None = None,
    processes: bool = False,
    tier: TierPlace = False,
    **settings: Unpack[BrokerSettings],
) -> Iterator[Kafka]:
    """Run a cluster for the length of a ``with`` block; an exception that leaves it gets the report as a note.

    In a `unittest.TestCase`, sync or async: ``self.kafka = self.enterContext(cluster())``, in `setUp` or, with
    `enterClassContext`, in `setUpClass` and then ``self.kafka.reset()`` in `setUp`. A failure of the test gets the
    note, too.

    Args:
        brokers, racks, topics, faults, tls, sasl, acls, processes, tier, settings: see
            `purgatorio.testing.options.ClusterOptions`.

    Raises:
        ValueError: a setting is unknown, or its value is not allowed; or a fault rule or an ACL cannot be.
    """
    options = ClusterOptions(
        brokers=brokers,
        racks=racks,
        topics=topics or {},
        faults=faults,
        tls=tls,
        sasl=sasl,
        acls=acls,
        processes=processes,
        tier=tier,
        settings=settings,
    )
    kafka = Kafka(options)
    from purgatorio.testing import moments

    try:
        with moments.of_caller(lambda: f"{kafka!r}\n{kafka.report()}") as found:
            yield kafka
    except Exception as error:
        with contextlib.suppress(Exception):  # no report is worth the loss of the error
            found.note(error)
        raise
    finally:
        kafka.close()
