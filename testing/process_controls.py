"""Controls of a cluster whose brokers are processes: `Controls` over the supervisor's admin HTTP and the wire.

Methods that need the brokers' objects in the test's own process raise an error that says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from purgatorio.admin.cli.processes.supervised import ProcessFailed
from purgatorio.admin.cli.processes.supervisor import Supervisor
from purgatorio.admin.operations.brokers import KillBroker, ListBrokers, ListConnections, StopBroker
from purgatorio.admin.operations.clock import AdvanceClock, FreezeClock, ShowClock, UnfreezeClock
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.groups import DescribeGroup
from purgatorio.admin.operations.purgatories import State
from purgatorio.admin.operations.topics import ListTopics
from purgatorio.admin.web.forwarding import ForwardedRequest, ask
from purgatorio.admin.web.front import Front
from purgatorio.broker.causes.kinds import KINDS, why_unknown
from purgatorio.broker.cluster.cluster import BrokerStateError
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.layers.faults import AnyLive
from purgatorio.broker.routing.request import is_of_broker
from purgatorio.testing.connections import CLIENT_ID, Connections
from purgatorio.testing.group_controls import until_so
from purgatorio.testing.options import ONE_PROCESS
from purgatorio.testing.values import Advanced, Ended, Group, IsolationLevel, Parked, Record
from purgatorio.testing.waiting import first

T = TypeVar("T")

REFUSED: Final = f"{ONE_PROCESS}: start the cluster without processes=True"
LOOPBACK: Final = "127.0.0.1"
OPERATIONS_SHOWN: Final = 500


class ProcessControls:
    """Controls of a cluster of processes. All methods run in the loop of the supervisor.

    Args:
        supervisor: the processes.
        front: their admin HTTP.
    """

    def __init__(self, supervisor: Supervisor, front: Front) -> None:
        self._supervisor = supervisor
        self._front = front
        self._connections = Connections(self._address)
        self.groups = self

    @classmethod
    async def start(cls, config: ClusterConfig, topics: Mapping[str, int]) -> ProcessControls:
        """Start a cluster, and make its topics; a RuntimeError if a broker does not start."""
        if "log_level" not in config.model_fields_set:
            config = config.model_copy(update={"log_level": "warning"})  # it is the test's standard error
        supervisor = Supervisor(config)
        front = Front(supervisor)
        controls = cls(supervisor, front)
        try:
            await asyncio.to_thread(Front.load)  # other clusters of the thread go on
            await front.start(LOOPBACK, 0)
            await supervisor.start(front.token)
            for name, partitions in topics.items():
                await controls.topic(name, partitions, -1, {})
        except ProcessFailed as error:
            await controls.end()
            raise RuntimeError(f"the Kafka cluster did not start: {error}") from error
        except BaseException:
            await controls.end()
            raise
        return controls

    @property
    def cluster(self) -> NoReturn:
        """Refuse: there is no such object."""
        raise ValueError(REFUSED)

    def fault_rules(self) -> tuple[Sequence[AnyLive], Sequence[AnyLive]]:
        """Return the fault rules, of which there are none."""
        return (), ()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between."""
        return ",".join(f"{each.endpoints[0].host}:{each.endpoints[0].port}" for each in self._supervisor.brokers)

    async def admin_url(self) -> str:
        """Return the URL of the admin HTTP."""
        return self._front.url

    async def end(self) -> None:
        """End all processes in good order."""
        self._connections.close()
        await self._front.stop()
        await self._supervisor.stop()

    async def reset(self) -> NoReturn:
        """Refuse."""
        raise ValueError(REFUSED)

    # --- operations ---

    @staticmethod
    def load(operation: Operation) -> None:
        """The brokers' processes have loaded what operations import."""

    async def do(self, operation: Operation) -> dict[str, Any]:
        """Do an operation, and return its answer; a ValueError with the sentence if it is refused."""
        values = {each.name: getattr(operation, each.name) for each in operation.arguments()}
        given = {name: value for name, value in values.items() if value is not None}
        target, body = operation.request(given)
        host, port = self._front.address
        headers = {"content-type": "application/json", "host": f"{host}:{port}"}
        app = self._front.app
        assert app is not None, "it was started"
        told = await ask(
            app,
            ForwardedRequest(
                operation.method, f"/api/v1/{target}", headers, "" if operation.method == "GET" else json.dumps(body)
            ),
        )
        answer: dict[str, Any] = json.loads(told.body)
        if told.status >= 400:
            raise ValueError(answer["error"])
        return answer

    async def change_broker(self, operation: Operation) -> None:
        """Do an operation on a broker; a BrokerStateError if there is none of that id, or it is refused."""
        try:
            await self.do(operation)
        except ValueError as error:
            raise BrokerStateError(str(error)) from None
        finally:
            if isinstance(operation, KillBroker | StopBroker):
                self._connections.close_to(operation.id)

    async def asked(self, change: Awaitable[T]) -> T:
        """Return what a change returns."""
        return await change

    async def advance(self, seconds: float, *, sessions: bool) -> Advanced:
        """Move the clocks of all processes; return what ended by it."""
        answer = await self.do(AdvanceClock(seconds, sessions))
        return Advanced(seconds, tuple(map(_ended, answer["ended"])), ())

    async def now(self) -> float:
        """Return the brokers' time in seconds since 1970."""
        return float((await self.do(ShowClock()))["wall_ms"]) / 1000

    async def freeze(self) -> None:
        """Stop the brokers' time."""
        await self.do(FreezeClock())

    async def unfreeze(self) -> None:
        """Let the brokers' time go on."""
        await self.do(UnfreezeClock())

    async def running(self) -> list[int]:
        """Return the ids of the running brokers."""
        rows = (await self.do(ListBrokers()))["brokers"]
        return [row["id"] for row in rows if row["state"] == "running"]

    # --- topics and records ---

    async def topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Create a topic; return when each partition has a leader that all running brokers know."""
        running = await self.running()
        await self._connections.create_topic(running[0], name, partitions, replicas, configs)
        for broker_id in running:
            await first(partial(self._connections.knows_leaders, broker_id, name))

    async def leader_id(self, topic: str, partition: int) -> int:
        """Return the id of the broker that leads a partition."""
        return await when_led(partial(self._leader, topic, partition))

    async def _leader(self, topic: str, partition: int) -> int:
        return await self._connections.leader_of(await self._any(), topic, partition)

    async def produce(
        self,
        topic: str,
        values: Sequence[bytes | None],
        key: bytes | None,
        partition: int,
        headers: Mapping[str, bytes],
        timestamp_ms: int | None,
    ) -> int:
        """Append records to a partition with acks=all; return the offset of the first."""
        at_ms = self._supervisor.clock.wall_ms() if timestamp_ms is None else timestamp_ms

        async def produce() -> int:
            leader = await self._leader(topic, partition)
            return await self._connections.produce(leader, topic, partition, key, values, headers, at_ms)

        return await when_led(produce)

    async def records(self, topic: str, partition: int | None, isolation_level: IsolationLevel) -> list[Record]:
        """Return the committed records of a topic, by partition and offset."""
        count = await self._partition_count(topic)
        found: list[Record] = []
        for index in range(count) if partition is None else (partition,):
            found += await when_led(partial(self._records, topic, index, isolation_level))
        return found

    async def _records(self, topic: str, partition: int, isolation_level: IsolationLevel) -> list[Record]:
        leader = await self._leader(topic, partition)
        return await self._connections.records(leader, topic, partition, isolation_level)

    async def until_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync."""

        async def in_sync() -> bool:
            rows = (await self.do(ListTopics()))["partitions"]
            return all(set(row["isr"]) == set(row["replicas"]) for row in rows if row["topic"] == topic)

        await self._partition_count(topic)
        await first(in_sync)

    async def _partition_count(self, topic: str) -> int:
        async def counted() -> int:
            return await self._connections.partition_count(await self._any(), topic)

        return await when_led(counted)

    async def until_known(self, broker_id: int) -> NoReturn:
        """Refuse: no broker can be added."""
        raise ValueError(REFUSED)

    def _address(self, broker_id: int) -> tuple[str, int]:
        each = next(each for each in self._supervisor.brokers if each.broker_id == broker_id)
        return each.endpoints[0].host, each.endpoints[0].port

    async def _any(self) -> int:
        running = await self.running()
        if not running:
            raise ValueError("no broker is running")
        return running[0]

    # --- what waits ---

    async def parked(
        self, api: str | None = None, topic: str | None = None, client: str | None = None, group: str | None = None
    ) -> list[Parked]:
        """Return what waits in the brokers' purgatories; heartbeats only if asked for. Causes are JSON documents."""
        if api is not None and (why := why_unknown(api)):
            raise ValueError(why)
        clients = await self._client_ids(group) if group is not None else set()
        state = await self.do(State(operations=OPERATIONS_SHOWN))
        return [
            _parked(broker["id"], purgatory["name"], each)
            for broker in state["brokers"]
            for purgatory in broker["purgatories"]
            if purgatory["name"] == api or (api is None and not KINDS[purgatory["name"]].is_idle)
            for each in purgatory["operations"]
            if (client is None or each["client"] == client)
            and (group is None or each["client"] in clients or any(group in key for key in each["keys"]))
            and (topic is None or any(topic in (key, key.rpartition("-")[0]) for key in each["keys"]))
        ]

    async def until_parked(
        self, api: str | None = None, topic: str | None = None, client: str | None = None, group: str | None = None
    ) -> list[Parked]:
        """Wait until something of that description waits."""
        return await first(lambda: self.parked(api, topic, client, group))

    async def clients(self) -> list[str]:
        """Return the client ids that are connected; a client that has closed its end is not."""
        rows = (await self.do(ListConnections()))["connections"]
        found = {row["client"] or f"a connection from {row['peer']}" for row in rows if not row["has_ended"]}
        return sorted(name for name in found if not is_of_broker(name) and name != CLIENT_ID)

    async def clients_gone(self, except_for: Collection[str], patience_seconds: float) -> list[str]:
        """Return the client ids that are still connected after a while; at once when there are no others than these."""
        loop = asyncio.get_running_loop()
        give_up, allowed = loop.time() + patience_seconds, set(except_for)
        left = await first(self.clients, lambda names: allowed.issuperset(names) or loop.time() > give_up)
        return [name for name in left if name not in allowed]

    async def report(self) -> str:
        """Return the brokers, and what waits, as text."""
        rows = (await self.do(ListBrokers()))["brokers"]
        lines = [f"broker {row['id']} {row['state']} {row['process']['trouble']}".rstrip() for row in rows]
        parked = [each for each in await self.parked() if not is_of_broker(each.client)]
        lines += [f"broker {each.broker} {each.purgatory} of {each.client}: {each.missing}" for each in parked]
        return "\n".join(lines)

    # --- groups ---

    async def find(self, group_id: str) -> Group | None:
        """Return a group; None if it does not exist, or its coordinator does not answer."""
        try:
            row = await self.do(DescribeGroup(group_id))
        except ValueError:
            return None
        members = tuple(each["member_id"] for each in row["members"])
        return Group(group_id, row["state"], row["coordinator"], row["epoch"], members, row["waits_for"])

    async def until(self, group_id: str, state: str | None, count: int | None) -> Group:
        """Wait until a group has that state and that many members; return it."""
        return await until_so(lambda: self.find(group_id), state, count)

    async def _client_ids(self, group_id: str) -> set[str]:
        row = await self.do(DescribeGroup(group_id))
        return {each["client"] for each in row["members"]}


def _parked(broker_id: int, purgatory: str, row: Mapping[str, Any]) -> Parked:
    return Parked(
        broker_id,
        row["id"],
        purgatory,
        row["client"],
        tuple(row["keys"]),
        row["missing"],
        tuple(row["causes"]),
        row["waited_ms"],
        row["remaining_ms"],
    )


def _ended(row: Mapping[str, Any]) -> Ended:
    keys = tuple(row["keys"])
    return Ended(row["broker"], row["purgatory"], row["client"], keys, row["missing"], (), row["waited_ms"])
