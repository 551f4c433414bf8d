"""An event loop with virtual time, which runs several nodes in one process as if each were a process of its own.

Time stands still while callbacks run, and jumps to the next timer when none is ready. An injected random generator
interleaves the callbacks of different nodes; the callbacks of one node keep their order. So a seed gives one history.

A context variable identifies the current node: its tasks and callbacks inherit it. Code outside of any node is the
world, which drives the simulation; no fault affects it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from purgatorio.purgatory.clock import Alarm

T = TypeVar("T")

START_SECONDS: Final = 1000.0
WALL_START_MS: Final = 1_700_000_000_000
TURN_SECONDS: Final = 1e-6
"""The virtual time that one turn of the loop takes; without it, code that polls with sleep(0) would wait for ever."""
MAX_UNWINDING_STEPS: Final = 100_000
STEPS_BEFORE_CANCELLATION: Final = 200
MAX_CANCELLATIONS: Final = 100
"""How often the tasks of a dead node are cancelled; each `finally` block that waits for ever takes one of them."""

_node: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)


class SimulationStalled(Exception):
    """The simulation is not done, but no callback is ready and no timer is set."""


def current_node() -> Node | None:
    """Return the node whose code runs; None in the world."""
    return _node.get()


class Node:
    """One simulated process, from start to kill; `SimulatedLoop.node` makes it.

    Attributes:
        slow_since: the loop's time since which it makes a turn only at each `turn`; None: it makes as many as it needs.
        resumed_at: the loop's time of the last `resume`.
    """

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.pauses_again = False  # after one turn
        self.slow_since: float | None = None
        self.resumed_at = -math.inf
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.held: deque[asyncio.Handle] = deque()
        self.on_kill: list[Callable[[], None]] = []
        self._loop = loop
        self.context = contextvars.Context()
        self.context.run(_node.set, self)

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    def call(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as this node in a later turn, unless the node is dead."""
        if self.alive:
            self._loop.call_soon(callback, *args, context=self.context.copy())

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as this node.

        Raises:
            RuntimeError: the node is dead.
        """
        if not self.alive:
            coroutine.close()
            raise RuntimeError(f"{self.name} was killed: it runs nothing any more")
        return self._loop.create_task(coroutine, name=name, context=self.context.copy())

    def pause(self) -> None:
        """Run no callback of this node until `resume`, while time goes on, as SIGSTOP does."""
        self.paused = True

    def resume(self) -> None:
        """Run the held callbacks, in order, and continue."""
        self.slow_since = None
        self.resumed_at = self._loop.time()
        self.pauses_again = False
        self._go_on()

    def _go_on(self) -> None:
        if self.paused:
            self.paused = False
            self._loop.resuming.append(self)

    def slow_down(self) -> None:
        """Make a turn of the event loop only at each `turn`, until `resume`."""
        self.slow_since = self._loop.time()
        self.pause()

    def turn(self) -> None:
        """Let a paused node make one turn of its event loop, with all callbacks that are held, and pause it again."""
        if self.paused:
            self._go_on()
            self.pauses_again = True

    def kill(self) -> None:
        """Kill this process at once.

        The `on_kill` hooks run first: they close its connections and servers. At the end of the turn the loop cancels
        and unwinds its tasks, so that the garbage collector, which is not deterministic, has none of them to end.
        """
        if not self.alive:
            return
        self.alive = False
        for hook in list(self.on_kill):
            hook()
        self._loop.dying.append(self)


class SimulatedTask(asyncio.Task[Any]):
    """A task whose place in a set follows its number, not its address: `asyncio.TaskGroup` cancels its tasks in the
    order of a set, and what a pass of the garbage collector has freed decides the addresses."""

    def __init__(self, coroutine: Any, *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation; `rng` interleaves the callbacks of different nodes."""

    network: Any = None
    """The `purgatorio.simulation.world.network.SimulatedNetwork` of `create_server` and `create_connection`."""
    after_turn: Callable[[], None] | None = None
    """Looks at the simulation after each turn, from outside: it must change nothing, and take no random number."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.world = contextvars.Context()
        self._rng = rng
        self._now = START_SECONDS
        self._nodes: dict[str, Node] = {}
        self._world_tasks: dict[asyncio.Task[Any], None] = {}
        self.dying: list[Node] = []
        self.resuming: list[Node] = []
        self._base = cast("Any", self)  # BaseEventLoop's queues, which its type stubs do not name
        self._numbers = itertools.count()
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Return virtual seconds."""
        return self._now

    def node(self, name: str) -> Node:
        """Return the running node of this name, or a new one if there is none."""
        node = self._nodes.get(name)
        if node is None or not node.alive:
            node = self._nodes[name] = Node(self, name)
        return node

    # --- turns ---

    def _run_once(self) -> None:
        self._now += TURN_SECONDS
        ready: deque[asyncio.Handle] = self._base._ready
        timers: list[Any] = self._base._scheduled  # TimerHandles, of which the type stubs do not name what is used
        turning = self._release() if self.resuming else []
        self._drop_cancelled(timers)
        if not ready and not self._base._stopping:
            if not timers:
                raise SimulationStalled("nothing is ready and no timer is set")
            self._now = max(self._now, timers[0].when())
        while timers and timers[0].when() <= self._now:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            ready.append(handle)
        turn: list[Any] = list(ready)
        ready.clear()
        self._run_interleaved(turn)
        for node in turning:
            node.paused = node.pauses_again
        while self.dying:
            node = self.dying.pop(0)
            self._unwind(node, node.tasks, node.held)
            node.held = deque(maxlen=0)
        if self.after_turn is not None:
            self.after_turn()

    def _release(self) -> list[Node]:
        """Put what resumed nodes hold before all that is ready, which came later; return those that make one turn."""
        resuming, self.resuming = self.resuming, []
        for node in resuming:
            if node.alive and not node.paused:
                held, node.held = node.held, deque()
                self._base._ready.extendleft(reversed(held))
        return [node for node in resuming if node.pauses_again]

    def _drop_cancelled(self, timers: list[asyncio.TimerHandle]) -> None:
        """Remove cancelled timers from the front, or all of them when they are the majority."""
        base = self._base
        if base._timer_cancelled_count > 100 and base._timer_cancelled_count * 2 > len(timers):
            kept = []
            for handle in timers:
                if handle.cancelled():
                    cast("Any", handle)._scheduled = False
                else:
                    kept.append(handle)
            heapq.heapify(kept)
            timers[:] = kept
            base._timer_cancelled_count = 0
        while timers and timers[0].cancelled():
            base._timer_cancelled_count -= 1
            cast("Any", heapq.heappop(timers))._scheduled = False

    def _run_interleaved(self, turn: list[Any]) -> None:
        if len(turn) == 1:  # most turns
            self._run_handle(turn[0]._context.get(_node), turn[0])
            return
        queues: dict[Node | None, deque[asyncio.Handle]] = {}
        for handle in turn:
            node = handle._context.get(_node)
            queue = queues.get(node)
            if queue is None:
                queue = queues[node] = deque()
            queue.append(handle)
        nodes = list(queues)
        try:
            while nodes:
                place = int(self._rng.random() * len(nodes)) if len(nodes) > 1 else 0
                node = nodes[place]
                queue = queues[node]
                handle = queue.popleft()
                if not queue:
                    del nodes[place]
                self._run_handle(node, handle)
        except BaseException:  # the simulation is aborted; `close` unwinds the callbacks that did not run
            for node in nodes:
                self._base._ready.extend(queues[node])
            raise

    @staticmethod
    def _run_handle(node: Node | None, handle: Any) -> None:
        if handle.cancelled():
            return
        if node is not None and (node.paused or not node.alive or node.held):  # held: it resumes with the next turn
            node.held.append(handle)
            return
        handle._run()

    # --- the end of a node ---

    def _unwind(self, node: Node | None, tasks: dict[asyncio.Task[Any], None], held: deque[asyncio.Handle]) -> None:
        """Cancel the tasks of a dead node and run them to their end, without time passing or other nodes running.

        Tasks are cancelled again whenever nothing else can happen, and every so often: a `finally` block may wait for
        an answer, or ask for it again and again, and no answer comes any more.
        """
        own = deque(held)
        cancellations = 0
        for step in range(MAX_UNWINDING_STEPS):
            own.extend(self._take(self._base._ready, node))
            if cancellations and all(task.done() for task in tasks):
                break
            if not own and cancellations:
                own.extend(self._take_first_timer(node))
            if own and cancellations > step // STEPS_BEFORE_CANCELLATION:
                handle = own.popleft()
                if not handle.cancelled():
                    cast("Any", handle)._run()
            elif cancellations < MAX_CANCELLATIONS:
                cancellations += 1
                for task in list(tasks):
                    task.cancel()
            else:
                break
        assert all(task.done() for task in tasks), f"{node or 'the world'} does not come to its end: {list(tasks)}"

    def close(self) -> None:
        """Kill all nodes and end the world's tasks; no task is left, even if the simulation was aborted."""
        if not self.is_closed() and not self.is_running():
            asyncio._set_running_loop(self)
            self._base._thread_id = threading.get_ident()  # so that what unwinds may make futures and tasks
            try:
                self._unwind_all()
            finally:
                self._base._thread_id = None
                asyncio._set_running_loop(None)
        super().close()

    def _unwind_all(self) -> None:
        for node in self._nodes.values():
            node.kill()
        for node in self.dying:
            self._unwind(node, node.tasks, node.held)
        self._unwind(None, self._world_tasks, deque())

    def make_task(self, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        """Return a new task of this loop; the task factory calls it."""
        return SimulatedTask(coroutine, loop=self, number=next(self._numbers), **options)

    def task_made(self, task: asyncio.Task[Any], node: Node | None) -> None:
        """Add a task to its node's tasks until it is done."""
        tasks = self._world_tasks if node is None else node.tasks
        tasks[task] = None
        task.add_done_callback(lambda done: tasks.pop(done, None), context=self.world)

    @staticmethod
    def _take(ready: deque[asyncio.Handle], node: Node | None) -> list[asyncio.Handle]:
        taken = [handle for handle in ready if cast("Any", handle)._context.get(_node) is node]
        if taken:
            kept = [handle for handle in ready if cast("Any", handle)._context.get(_node) is not node]
            ready.clear()
            ready.extend(kept)
        return taken

    def _take_first_timer(self, node: Node | None) -> list[asyncio.Handle]:
        timers: list[asyncio.TimerHandle] = self._base._scheduled
        mine = [t for t in timers if cast("Any", t)._context.get(_node) is node and not t.cancelled()]
        if not mine:
            return []
        first = min(mine, key=lambda timer: timer.when())
        timers.remove(first)
        heapq.heapify(timers)
        cast("Any", first)._scheduled = False
        return [first]

    # --- asyncio's interface of a loop ---

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Listen on the simulated network."""
        return self.network.listen(factory, host, port)

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Connect over the simulated network."""
        return await self.network.connect(factory, host, port)

    def _write_to_self(self) -> None:
        """Do nothing: there is no selector to wake."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there are no I/O events."""


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    simulated = cast("SimulatedLoop", loop)
    task = simulated.make_task(coroutine, **options)
    context: contextvars.Context | None = options.get("context")
    simulated.task_made(task, _node.get() if context is None else context.get(_node))
    return task


class SimulatedClock:
    """`purgatorio.purgatory.clock.Clock` over a simulated loop.

    Args:
        rate: the seconds of the monotonic clock, and of all waits, in one second of the simulation.
    """

    def __init__(self, loop: SimulatedLoop, rate: float = 1.0) -> None:
        self._loop = loop
        self._rate = rate

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return int(self.now_seconds() * 1000)

    def now_seconds(self) -> float:
        """Return monotonic seconds."""
        return START_SECONDS + (self._loop.time() - START_SECONDS) * self._rate

    def wall_ms(self) -> int:
        """Return simulated milliseconds since 1970-01-01 UTC."""
        return WALL_START_MS + int((self._loop.time() - START_SECONDS) * 1000)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000 / self._rate)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        return self._loop.call_later(delay_ms / 1000 / self._rate, callback, *args)
