"""A scene that is played: its clients' tasks, its steps, and what is seen of it."""

from __future__ import annotations

import asyncio
from typing import Final

from purgatorio.admin.learn.clients import KINDS
from purgatorio.admin.learn.clients.client import Client, Fact, Stage
from purgatorio.admin.learn.clients.member import MemberClient
from purgatorio.admin.learn.clients.share_member import ShareMember
from purgatorio.admin.learn.scene import BEGIN, Act, Scene, Step
from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.reading.group_state import LAGS, Ends, read_group
from purgatorio.admin.operations.reading.share_state import locks_of
from purgatorio.admin.operations.reading.waits import read_waits
from purgatorio.admin.operations.topics import CreateTopic, MoveLeader
from purgatorio.broker.causes.kinds import LESSON
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.log.topic_partition import TopicPartition

SETTLE_MS: Final = 60_000
"""The longest time from a step to its consequences."""
LOOK_MS: Final = 50
GROUP: Final = "group "
OF_LOG: Final = ("log_end_offset", "local_start_offset")
"""The figures of a partition that its log has."""


class Playing:
    """A scene on a cluster. It owns the tasks of its clients, from `begin` to `end`.

    Attributes:
        scene: what is played.
        at: the step that was done last, or is being done.
        trace: what was seen, the same whenever the scene is played: steps, causes, and exact figures.
    """

    def __init__(self, scene: Scene, operator: Operator) -> None:
        self.scene = scene
        self.at = 0
        self.trace: list[str] = []
        self._operator = operator
        self._clients: dict[str, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._was: dict[str, Fact | None] = {}
        self._is_busy = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._has_ended = False
        self._failed = ""

    # --- steps ---

    async def begin(self) -> None:
        """Create the topics, let the clients begin, and do the first step."""
        for topic in self.scene.topics:
            await CreateTopic(topic.name, topic.partitions, None, dict(topic.configs)).run(self._operator)
            if topic.leader is not None:
                await MoveLeader(topic.name, 0, topic.leader).run(self._operator)
        for name in self.scene.begins:
            self._begin_client(name)
        await self.step(0)

    async def step(self, number: int) -> None:
        """Do a step; return when its consequences are to be seen.

        Raises:
            OperationRefused: there is no such step, another one is being done, or its consequences do not come.
        """
        if not 0 <= number < len(self.scene.steps):
            raise OperationRefused(
                f"scene {self.scene.name} has {len(self.scene.steps) - 1} steps, and no step {number}"
            )
        if self._is_busy:
            raise OperationRefused("the last step is not done yet")
        self._is_busy = True
        self._is_idle.clear()
        self.at = number
        step = self.scene.steps[number]
        try:
            self._was = {figure.of: self._value(figure.of) for figure in self.scene.figures} if number else {}
            for act in step.acts:
                await self._act(act)
            await self._settle(step)
        finally:
            self._is_busy = False
            self._is_idle.set()
        self._trace(step)

    async def end(self) -> None:
        """End the clients, and wait for the step that is being done; no task, connection or operation is left."""
        self._has_ended = True
        for client in self._clients.values():
            await client.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._is_idle.wait()

    async def _act(self, act: Act) -> None:
        if act.op:
            await act.operation().run(self._operator)
        elif act.does == BEGIN:
            self._begin_client(act.client)
        else:
            await getattr(self._clients[act.client], act.does)(**act.given)

    def _begin_client(self, name: str) -> None:
        cluster = self._operator.cluster
        stage = Stage(
            cluster.clock,
            lambda: [each.address for each in cluster.brokers],
            lambda: cluster.brokers[0].purgatory_of(LESSON),
        )
        told = dict(self.scene.clients[name])
        client = self._clients[name] = KINDS[told.pop("kind")](stage, name, **told)
        task = asyncio.get_running_loop().create_task(client.run(), name=f"scene {self.scene.name}: {name}")
        task.add_done_callback(self._client_ended)
        self._tasks.append(task)

    def _client_ended(self, task: asyncio.Task[None]) -> None:
        """Report a client that has failed by a bug; it lives until it is cancelled."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = f"{task.get_name()} has failed: {error!r}"

    async def _settle(self, step: Step) -> None:
        clock = self._operator.cluster.clock
        due_ms = clock.now_ms() + SETTLE_MS
        while missing := self._missing(step):
            if self._has_ended:
                raise OperationRefused("the scene was ended")
            if self._failed:
                raise OperationRefused(self._failed)
            if clock.now_ms() >= due_ms:
                raise OperationRefused(f"the scene has waited {SETTLE_MS / 1000:g} s in vain for {missing}")
            await clock.sleep(LOOK_MS)

    def _missing(self, step: Step) -> str:
        """Return what is not to be seen yet, or nothing."""
        if step.cause.startswith(GROUP):
            if not self.why(step):
                return f"{step.cause} to wait"
        elif step.cause and step.cause not in self._causes():
            return f"a request that waits for {step.cause}"
        for name, wanted in step.until.items():
            value = self._value(name)
            if not (value == wanted or (isinstance(wanted, int) and isinstance(value, int) and value >= wanted)):
                return f"{name} to be {wanted}; it is {value}"
        return ""

    # --- what is seen ---

    def _causes(self) -> list[str]:
        """Return what requests wait for: kinds of causes, and kinds with their actors."""
        waits = read_waits(self._operator.cluster.brokers, self._operator.image)
        return [each["kind"] for each in waits] + [f"{each['kind']} {each['actor']}" for each in waits]

    def why(self, step: Step) -> str:
        """Return what a group waits for if the step is about one, as a sentence; else nothing."""
        if not step.cause.startswith(GROUP):
            return ""
        operator, name = self._operator, step.cause.removeprefix(GROUP)
        ends = Ends(operator.cluster.brokers, operator.image, LAGS)
        try:
            group = read_group(operator.groups, ends, name, members=0, offsets=0)
        except OperationRefused:
            return ""
        return "" if group is None else str(group["waits_for"])

    def _value(self, name: str) -> Fact | None:
        """Return a figure, or None if there is none now."""
        owner, _, fact = name.rpartition(".")
        if owner in self.scene.clients:
            return self._fact(self._clients[owner], fact) if owner in self._clients else None
        topic, _, index = owner.rpartition("-")
        state = self._operator.image.partition(topic, int(index))
        if state is None:
            return None
        if fact in ("leader", "leader_epoch"):
            return int(getattr(state, fact))
        if fact == "isr":
            return len(state.isr)
        for broker in self._operator.cluster.brokers:
            partition = broker.replica(TopicPartition(topic, int(index)))
            if broker.broker_id == state.leader and partition is not None:
                return int(getattr(partition.log if fact in OF_LOG else partition, fact))
        return None

    def _fact(self, client: Client, fact: str) -> Fact | None:
        """Return a fact of a client.

        The brokers alone know when the locks of a share member's records have run out, and that a silent member of a
        group is none any more.
        """
        if fact == "locked" and isinstance(client, ShareMember):
            locks = locks_of(self._operator.cluster.brokers, client.group, client.member_id)
            return int(sum(lock.held_count for _, lock in locks))
        if fact == "partitions" and isinstance(client, MemberClient) and self._was_removed(client):
            return 0
        return client.facts.get(fact)

    def _was_removed(self, client: MemberClient) -> bool:
        """Return whether the client's group goes on without it, which it does not know yet."""
        try:
            found = self._operator.groups.find(client.group)[1].groups.get(client.group)
        except OperationRefused:
            return False
        return isinstance(found, ClassicGroup) and client.member_id != "" and client.member_id not in found.members

    def _trace(self, step: Step) -> None:
        seen = [f"waits for {step.cause}"] if step.cause else []
        for name, wanted in step.until.items():
            seen.append(f"{name} is {wanted}" + (" or more" if isinstance(wanted, int) else ""))
        seen += [
            f"{each.of} was {self._was.get(each.of)}, is {self._value(each.of)}"
            for each in self.scene.figures
            if each.exact
        ]
        self.trace.append("\n  ".join([step.button, *seen]))

    def shown(self) -> Answer:
        """Return its state for the page: the last step, the button of the next one, and the figures."""
        steps = self.scene.steps
        last = steps[self.at]
        figures = [
            {
                "says": figure.says,
                "unit": figure.unit,
                "was": self._was.get(figure.of),
                "now": self._value(figure.of),
            }
            for figure in self.scene.figures
        ]
        return {
            "name": self.scene.name,
            "number": self.scene.number,
            "title": self.scene.title,
            "says": last.says,
            "step": self.at,
            "steps": len(steps) - 1,
            "button": steps[self.at + 1].button if self.at + 1 < len(steps) else None,
            "why": self.why(last),
            "figures": figures,
            "keep": self.scene.keep if self.at else "",
            "busy": self._is_busy,
            "failed": self._failed,
        }
