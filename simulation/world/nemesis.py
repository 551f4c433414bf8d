"""The nemesis: random faults in a simulated cluster, as in Jepsen, which it undoes in the end.

The faults stay within the cluster's guarantees: the nemesis stops, kills or replaces a broker, which loses its logs,
only if every partition keeps at least one running replica that is in sync or eligible. Pauses, network partitions and
an unreachable metadata store lose no logs, and are not limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.cluster.errors import NotInSync
from purgatorio.broker.cluster.restart import rolling_restart, wait_until_in_sync
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import (
    NewTopic,
    Reassignment,
    TopicReference,
    create_topics,
    delete_topics,
    reassign_partitions,
)
from purgatorio.broker.metadata.store import Decision, decide
from purgatorio.simulation.history.history import Fault, History
from purgatorio.simulation.world.cluster import SimulatedCluster, SimulatedProcess
from purgatorio.simulation.world.tier import SLOW_MS, SimulatedTier
from purgatorio.simulation.world.transport import LinkDirection

RECREATION_SECONDS: Final = (2.0, 3.5)
"""The time without a deleted topic: longer than clients wait for an answer and brokers for a lease."""

SLOW_TURN_SECONDS: Final = (0.05, 0.3)
"""How long a turn of a slow process takes: seen on two cores beside eight busy processes."""
IN_DOUBT_SECONDS: Final = 1.0
"""How long the nemesis looks for a transaction in doubt; most are for some milliseconds."""
PAUSED, WITHOUT_STORE, CUT_OFF = "is paused", "loses the metadata store", "is cut off from all"
STANDSTILLS: Final = (PAUSED, WITHOUT_STORE, CUT_OFF)
"""Faults of a broker's process before it is replaced; each costs it its lease."""


def _of_a_broker(
    fault: Callable[[Nemesis, float, int], Coroutine[Any, Any, None]],
) -> Callable[[Nemesis, float], Coroutine[Any, Any, None]]:
    """Give a fault a running broker that has no fault of its own; if there is none, nothing happens."""

    async def on_victim(nemesis: Nemesis, end: float) -> None:
        victim = nemesis._victim()
        if victim is not None:
            await fault(nemesis, end, victim)

    return on_victim


class Nemesis:
    """Runs random faults, which may overlap.

    Args:
        clients: the node names of the clients.
        restart_client: starts another client in the place of one that was killed.
        kinds: the names of `FAULTS` to choose from.
        deletable, recreatable: the topics of which records, or which themselves, may be deleted.
    """

    wait_until_in_sync = staticmethod(wait_until_in_sync)

    def __init__(
        self,
        cluster: SimulatedCluster,
        clients: list[str],
        history: History,
        rng: random.Random,
        *,
        restart_client: Callable[[str], None],
        kinds: tuple[str, ...] = (),
        deletable: Sequence[str] = (),
        recreatable: Sequence[str] = (),
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._history = history
        self._rng = rng
        self._restart_client = restart_client
        self._deletable = deletable
        self._recreatable = recreatable
        self._kinds = kinds
        self._busy: set[int] = set()
        self._leaving: set[int] = set()
        self._suspended = False
        self._recreating = False
        self._operator = cluster.store.open()

    async def run(self, seconds: float) -> None:
        """Run faults for this time; all faults are undone when it returns."""
        loop = self._cluster.loop
        end = loop.time() + seconds
        async with asyncio.TaskGroup() as faults:
            while loop.time() < end:
                kind = self._rng.choice(self._kinds)
                faults.create_task(FAULTS[kind](self, end), name=kind)
                await asyncio.sleep(self._rng.uniform(0.1, 2.5))
        self._cluster.network.heal_all()
        for process in self._cluster.all_processes():
            process.link.heal()
        if self._cluster.tier is not None:
            self._cluster.tier.heal()
        self._note("all healed")

    def _note(self, what: str) -> None:
        self._history.record(Fault(self._cluster.clock.now_ms(), what))

    async def _hold(self, end: float, low: float, high: float) -> None:
        """Wait while a fault lasts, at most until the end of all faults."""
        now = self._cluster.loop.time()
        await asyncio.sleep(max(0.0, min(self._rng.uniform(low, high), end - now)))

    async def _last(self, end: float, began: str, over: str, undo: Callable[[], object], *times: float) -> None:
        """Record a fault, and undo it after a while: between `times` in seconds, 0.2 and 4 if none are given."""
        self._note(began)
        await self._hold(end, *(times or (0.2, 4.0)))
        undo()
        self._note(over)

    # --- brokers ---

    def _victim(self, candidates: list[int] | None = None) -> int | None:
        """Return a running broker without a fault of its own, or None."""
        running = [b for b in (candidates or self._cluster.broker_ids) if self._cluster.is_running(b)]
        free = [broker_id for broker_id in running if broker_id not in self._busy]
        return self._rng.choice(free) if free else None

    def may_lose_logs(self, broker_id: int) -> bool:
        """Whether every partition keeps a running replica that is in sync or eligible without this broker."""
        return self._cluster.may_lose_logs(broker_id, self._leaving)

    async def _take_down(self, broker_id: int, end: float, *, kill: bool) -> None:
        if not self.may_lose_logs(broker_id):
            return
        self._busy.add(broker_id)
        self._note(f"{'kill' if kill else 'stop'} broker {broker_id}")
        if kill:
            self._cluster.kill_broker(broker_id)
        else:
            self._leaving.add(broker_id)
            await self._cluster.stop_broker(broker_id)
            self._leaving.discard(broker_id)
        await self._hold(end, 0.0, 4.0)
        self._note(f"start broker {broker_id}")
        await self._cluster.start_broker(broker_id)
        self._busy.discard(broker_id)

    @_of_a_broker
    async def kill(self, end: float, victim: int) -> None:
        """Kill a broker, and start it again after a while."""
        await self._take_down(victim, end, kill=True)

    @_of_a_broker
    async def stop(self, end: float, victim: int) -> None:
        """Shut a broker down in good order, and start it again."""
        await self._take_down(victim, end, kill=False)

    async def chase_leader(self, end: float) -> None:
        """Kill the leader of a random partition, two or three times in a row."""
        for _ in range(self._rng.randint(2, 3)):
            states = list(self._cluster.partitions.values())
            leader = self._rng.choice(states).leader if states else -1
            victim = self._victim([leader]) if leader >= 0 else None
            if victim is not None:
                await self._take_down(victim, end, kill=True)

    async def kill_in_doubt(self, end: float) -> None:
        """Kill the coordinator of a transaction whose result is being decided or lacks markers, or a leader of it."""
        give_up = min(end, self._cluster.loop.time() + IN_DOUBT_SECONDS)
        while self._cluster.loop.time() < give_up:
            concerned = self._concerned_by_transactions()
            victim = self._victim([self._rng.choice(concerned)]) if concerned else None
            if victim is not None:
                await self._take_down(victim, end, kill=True)
                return
            await asyncio.sleep(0.001)

    def _concerned_by_transactions(self) -> list[int]:
        """Return the coordinators of transactions that are in doubt, and the leaders that lack their markers."""
        concerned: dict[int, None] = {}
        for broker_id, transaction in self._cluster.transactions():
            if transaction.is_busy:
                concerned[broker_id] = None
                states = (self._cluster.image.partition(*tp) for tp in transaction.unmarked or ())
                concerned.update((state.leader, None) for state in states if state is not None)
        return list(concerned)

    @_of_a_broker
    async def pause(self, end: float, victim: int) -> None:
        """Stop a broker's process from running for a while (SIGSTOP)."""
        self._busy.add(victim)
        self._cluster.nodes[victim].pause()
        told = f"pause broker {victim}", f"resume broker {victim}"
        await self._last(end, *told, lambda: self._cluster.nodes[victim].resume())
        self._busy.discard(victim)

    @_of_a_broker
    async def replace(self, end: float, victim: int) -> None:
        """Start another process of a broker beside one that is paused or cut off; later the old process goes on."""
        if not self._cluster.is_replaceable(victim) or not self.may_lose_logs(victim):
            return
        self._busy.add(victim)
        self._leaving.add(victim)  # its logs are lost when the new process is registered
        old, standstill = self._cluster.processes[victim], self._rng.choice(STANDSTILLS)
        self._note(f"{old.host.name} {standstill}, to be replaced")
        self._set_aside(old, standstill)
        await self._hold(end, 0.0, 1.0)
        replaced = self.may_lose_logs(victim) and await self._cluster.replace_broker(victim)
        self._note(f"broker {victim} has another process" if replaced else f"broker {victim} was not replaced")
        self._busy.discard(victim)
        self._leaving.discard(victim)
        await self._hold(end, 0.0, 3.0)
        await self._bring_back(old, standstill, end)

    def _set_aside(self, process: SimulatedProcess, standstill: str) -> None:
        if standstill == PAUSED:
            process.node.pause()
        else:
            process.link.cut()
        if standstill == CUT_OFF:
            self._isolate(process.host.name)

    async def _bring_back(self, process: SimulatedProcess, standstill: str, end: float) -> None:
        """Let a process go on; clients and brokers reach it before it reaches the store."""
        if standstill == CUT_OFF:
            self._reconnect(process.host.name)
            await self._hold(end, 0.0, 1.0)
        if process in self._cluster.all_processes():
            self._note(f"the old process on {process.host.name} goes on")
            process.node.resume()
            process.link.heal()

    @_of_a_broker
    async def hold_followers(self, end: float, victim: int) -> None:
        """Hold a broker's follower fetches, long enough to leave the ISR, or almost."""
        gate, those = self._cluster.brokers[victim].gate, f"the followers of broker {victim}"
        gate.hold()
        await self._last(end, f"hold {those}", f"release {those}", gate.release, 0.1, 4.0)

    async def restart_in_turn(self, end: float) -> None:
        """Run a rolling restart: the next broker restarts when all replicas are in sync again."""
        left_ms = int(1000 * (end - self._cluster.loop.time()))
        if self._busy or left_ms <= 0:
            return
        self._busy.update(self._cluster.broker_ids)
        self._note("restart all brokers in turn")
        with contextlib.suppress(NotInSync):
            await rolling_restart(self._cluster, time_limit_ms=left_ms, wait=self.wait_until_in_sync)
        self._note("the restart of all brokers is over")
        self._busy.clear()

    async def suspend(self, end: float) -> None:
        """Suspend the process of all brokers and the store, as SIGSTOP or a busy machine does."""
        if self._busy or not self._cluster.one_process:
            return
        self._busy.update(self._cluster.broker_ids)
        self._note("suspend the process of all brokers")
        self._suspended = True
        self._cluster.suspend()
        await self._hold(end, 0.1, 3.0)
        self._cluster.resume()
        self._suspended = False
        self._note("resume the process of all brokers")
        self._busy.clear()

    @_of_a_broker
    async def slow_turns(self, end: float, victim: int) -> None:
        """Make the turns of a broker's event loop slow, or of the one that all brokers share."""
        cluster = self._cluster
        if cluster.one_process and self._busy:
            return
        slow = cluster.broker_ids if cluster.one_process else [victim]
        self._busy.update(slow)
        self._note(f"slow turns of {', '.join(map(str, slow))}")
        for node in cluster.nodes_of(slow):
            node.slow_down()
        until = min(end, cluster.loop.time() + self._rng.uniform(0.5, 6.0))
        while cluster.loop.time() < until:
            await asyncio.sleep(self._rng.uniform(*SLOW_TURN_SECONDS))
            for node in cluster.nodes_of(slow):
                node.turn()
        for node in cluster.nodes_of(slow):
            node.resume()
        self._note(f"fast turns of {', '.join(map(str, slow))}")
        self._busy.difference_update(slow)

    # --- the operator ---

    async def reassign(self, end: float) -> None:
        """Move a partition to other replicas, or change the order of its replicas."""
        partitions = self._cluster.partitions
        if not partitions:
            return
        (topic, index), state = self._rng.choice(list(partitions.items()))
        replicas = tuple(self._rng.sample(self._cluster.broker_ids, len(state.replicas) - len(state.adding)))
        wanted = Reassignment(topic, index, replicas)
        if self._suspended:
            return
        self._note(f"reassign {topic}-{index} to {', '.join(map(str, replicas))}")
        self._operator.submit(
            lambda image: reassign_partitions(image, [wanted], settings=self._cluster.topic_settings),
            lambda results: None,
        )

    async def delete_records(self, end: float) -> None:
        """Delete the records of a partition before a random offset, as its leader."""
        names = [name for name in self._cluster.partitions if name[0] in self._deletable]
        if not names:
            return
        name = self._rng.choice(names)
        leader = self._cluster.partitions[name].leader
        broker, tp = self._cluster.brokers.get(leader), TopicPartition(*name)
        partition = None if broker is None else broker.replicas.partitions.get(tp)
        if broker is None or partition is None:
            return
        offset = self._rng.randint(0, partition.high_watermark)
        self._note(f"delete records of {tp} before {offset}")
        delete = partial(broker.replicas.delete_records, timeout_ms=1_000, done=lambda results: None)
        self._cluster.nodes[leader].call(delete, [(tp, offset)])

    async def recreate(self, end: float) -> None:
        """Delete a topic, and create it again when no answer of the old one can be on its way any more."""
        names = [name for name in self._cluster.image.topics if name in self._recreatable]
        if not names or self._suspended or self._recreating:
            return
        self._recreating = True
        name = self._rng.choice(names)
        topic = self._cluster.image.topics[name]
        new = NewTopic(name, len(topic.partitions), len(topic.partitions[0].replicas), configs=dict(topic.configs))
        self._note(f"delete topic {name}")
        await self._change(lambda image: delete_topics(image, [TopicReference(name)]))
        await asyncio.sleep(self._rng.uniform(*RECREATION_SECONDS))
        self._note(f"create topic {name} again")
        while name not in self._cluster.image.topics:  # too few brokers may run
            await self._change(
                lambda image: create_topics(image, [new], settings=self._cluster.topic_settings, rng=self._rng)
            )
            await asyncio.sleep(0.1)
        self._recreating = False

    async def _change(self, decision: Decision[Any]) -> None:
        """Change the metadata as soon as the store runs, and wait until that is done."""
        while self._suspended:  # noqa: ASYNC110 - the nemesis itself ends that, in another task
            await asyncio.sleep(0.1)
        await decide(self._operator, decision)

    # --- clients ---

    async def kill_client(self, end: float) -> None:
        """Kill a client at a random moment; another client takes over its work."""
        name = self._rng.choice(self._clients)
        self._note(f"kill {name}")
        self._cluster.loop.node(name).kill()
        self._restart_client(name)

    # --- network and store ---

    def _names(self) -> list[str]:
        return [*(host.name for host in self._cluster.hosts()), *self._clients]

    async def isolate(self, end: float) -> None:
        """Cut one broker's host off from all other nodes, in both directions."""
        name = self._rng.choice(self._cluster.hosts()).name
        self._isolate(name)
        await self._last(end, f"cut {name} off", f"{name} is reachable again", partial(self._reconnect, name))

    def _isolate(self, name: str) -> None:
        self._cluster.network.partition([name], [other for other in self._names() if other != name])

    def _reconnect(self, name: str) -> None:
        for other in self._names():
            if other != name:
                self._cluster.network.heal(name, other)
                self._cluster.network.heal(other, name)

    async def cut_one_way(self, end: float) -> None:
        """Cut one direction between two nodes."""
        link, between, heal = self._some_link()
        link.cut = True
        await self._last(end, f"cut {between}", f"heal {between}", heal)

    async def slow_link(self, end: float) -> None:
        """Give a link high latency and low bandwidth."""
        link, between, heal = self._some_link()
        link.latency_ms, link.bytes_per_second = (20.0, 400.0), 20_000.0
        await self._last(end, f"slow {between}", f"{between} is fast again", heal, 0.5, 4.0)

    async def unsteady_link(self, end: float) -> None:
        """Delay some packets of a link for a long time, with all packets after them."""
        link, between, heal = self._some_link()
        link.spike_probability, link.spike_ms = 0.1, (100.0, 1_500.0)
        await self._last(end, f"spikes on {between}", f"{between} is steady again", heal, 0.5, 4.0)

    def _some_link(self) -> tuple[LinkDirection, str, Callable[[], None]]:
        """Return the link between two nodes, its name, and what undoes its faults."""
        source, target = self._rng.sample(self._names(), 2)
        network = self._cluster.network
        return network.link(source, target), f"{source} → {target}", partial(network.heal, source, target)

    @_of_a_broker
    async def lose_store(self, end: float, victim: int) -> None:
        """Cut a broker off from the metadata store; its lease may expire while it runs."""
        link = self._cluster.processes[victim].link
        link.cut()
        await self._last(end, f"broker {victim} loses the metadata store", _reaches_the_store(victim), link.heal)

    @_of_a_broker
    async def lose_store_one_way(self, end: float, victim: int) -> None:
        """Hold a broker's messages to the metadata store, or the store's messages to it."""
        to_store = self._rng.random() < 0.5
        link = self._cluster.processes[victim].link
        link.cut(to_store=to_store, to_broker=not to_store)
        began = f"cut broker {victim} → store" if to_store else f"cut store → broker {victim}"
        await self._last(end, began, _reaches_the_store(victim), link.heal)

    @_of_a_broker
    async def slow_store(self, end: float, victim: int) -> None:
        """Delay the messages between a broker and the metadata store, up to the time of a lease and more."""
        link, between = self._cluster.processes[victim].link, f"broker {victim} ↔ store"
        link.latency_ms = (20.0, 300.0)
        await self._last(end, f"slow {between}", f"{between} is fast again", link.heal, 0.5, 4.0)

    async def lose_answers(self, end: float) -> None:
        """Lose some of the store's answers to commits: the change was made, and the broker does not know."""
        store = self._cluster.store
        store.lost_answers = 0.5
        told = "lose answers of the metadata store", "the metadata store's answers arrive again"
        await self._last(end, *told, lambda: setattr(store, "lost_answers", 0.0), 0.5, 4.0)

    # --- tier ---

    async def lose_tier(self, end: float) -> None:
        """Cut brokers off from the object store: one, or all."""
        links = self._tier.links()
        if not links:
            return
        cut = [self._rng.choice(links)] if self._rng.random() < 0.5 else links
        for link in cut:
            link.cut()
        those = ", ".join(link.node.name for link in cut)
        told = f"{those} cut off from the tier", f"{those} reach the tier again"

        def heal() -> None:
            for link in cut:
                link.heal()

        await self._last(end, *told, heal)

    async def slow_tier(self, end: float) -> None:
        """Make calls of the object store slower than a fetch waits for them."""
        await self._spoil("latency_ms", SLOW_MS, end, "slow tier", "the tier is fast again")

    async def failing_tier(self, end: float) -> None:
        """Let calls of the object store fail, of which some are done later."""
        await self._spoil("errors", self._rng.choice((0.2, 0.6)), end, "the tier fails", "the tier works again")

    async def lying_tier(self, end: float) -> None:
        """Let reads of the object store be short, or damaged on their way."""
        await self._spoil("lies", self._rng.choice((0.2, 0.6)), end, "the tier lies", "the tier tells the truth again")

    async def _spoil(self, name: str, value: object, end: float, began: str, over: str) -> None:
        tier, before = self._tier, getattr(self._tier, name)
        setattr(tier, name, value)
        await self._last(end, began, over, lambda: setattr(tier, name, before), 0.5, 4.0)

    @property
    def _tier(self) -> SimulatedTier:
        assert self._cluster.tier is not None, "only a cluster with a tier has its faults"
        return self._cluster.tier


def _reaches_the_store(broker_id: int) -> str:
    return f"broker {broker_id} reaches the metadata store again"


FAULTS: Final[Mapping[str, Callable[[Nemesis, float], Coroutine[Any, Any, None]]]] = {
    "kill": Nemesis.kill,
    "stop": Nemesis.stop,
    "chase-leader": Nemesis.chase_leader,
    "in-doubt": Nemesis.kill_in_doubt,
    "pause": Nemesis.pause,
    "hold-followers": Nemesis.hold_followers,
    "rolling-restart": Nemesis.restart_in_turn,
    "suspend": Nemesis.suspend,
    "reassign": Nemesis.reassign,
    "delete-records": Nemesis.delete_records,
    "client-crash": Nemesis.kill_client,
    "isolate": Nemesis.isolate,
    "one-way": Nemesis.cut_one_way,
    "slow": Nemesis.slow_link,
    "spikes": Nemesis.unsteady_link,
    "store": Nemesis.lose_store,
    "one-way-store": Nemesis.lose_store_one_way,
    "slow-store": Nemesis.slow_store,
    "lost-answers": Nemesis.lose_answers,
    "recreate": Nemesis.recreate,
    "replace": Nemesis.replace,
    "slow-turns": Nemesis.slow_turns,
    "tier": Nemesis.lose_tier,
    "slow-tier": Nemesis.slow_tier,
    "failing-tier": Nemesis.failing_tier,
    "lying-tier": Nemesis.lying_tier,
}
"""Every fault, by its name on the command line."""
STORE_FAULTS: Final = ("one-way-store", "slow-store", "lost-answers")
"""The faults of the store that only some seeds have."""
TIER_FAULTS: Final = ("tier", "slow-tier", "failing-tier", "lying-tier")
"""The faults of the object store."""
