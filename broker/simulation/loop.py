"""An event loop with virtual time, on which several nodes of one process run as if each had a process of its own.

Time stands still while callbacks run, and jumps to the next timer when there are none. Callbacks of different nodes are
interleaved by an injected random generator, those of one node keep their order; so a seed gives one history.

A node is known by a context variable: what a node schedules, and the tasks that it starts, are its own. Code outside of
any node is the world: it drives the simulation, and no fault touches it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from purgatorio.broker.clock import Alarm

T = TypeVar("T")

START_SECONDS: Final = 1000.0
WALL_START_MS: Final = 1_700_000_000_000
TURN_SECONDS: Final = 1e-6
"""What one turn of the loop takes: without it code that waits by going round would wait for ever."""
MAX_UNWINDING_STEPS: Final = 100_000

_node: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)


class SimulationStalled(Exception):
    """Nothing is left to run and no timer is set, but the simulation was not done."""


def current_node() -> Node | None:
    """The node whose code runs; None in the world."""
    return _node.get()


class Node:
    """One life of a simulated process. Made by `SimulatedLoop.node`."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.held: deque[asyncio.Handle] = deque()
        self.on_kill: list[Callable[[], None]] = []
        self._loop = loop
        self.context = contextvars.Context()
        self.context.run(_node.set, self)

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    def call(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as this node, in a later turn; if the node is dead, never."""
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
        """Run nothing of this node until `resume`, while time goes on: as SIGSTOP does."""
        self.paused = True

    def resume(self) -> None:
        """Go on with all that came meanwhile, in order."""
        if self.paused:
            self.paused = False
            self._loop.resuming.append(self)

    def kill(self) -> None:
        """End this life at once.

        First the world stops to hear of it (`on_kill`); then, at the end of the turn, its tasks are cancelled and
        unwound, so that nothing of them is left to the garbage collector, whose moment nobody knows.
        """
        if not self.alive:
            return
        self.alive = False
        for hook in list(self.on_kill):
            hook()
        self._loop.dying.append(self)


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module's description.

    Args:
        rng: decides how callbacks of different nodes are interleaved.
    """

    network: Any = None
    """What `create_server` and `create_connection` go to: a `purgatorio.broker.simulation.network.Network`."""

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
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def node(self, name: str) -> Node:
        """The living node of this name; a new one if there is none."""
        node = self._nodes.get(name)
        if node is None or not node.alive:
            node = self._nodes[name] = Node(self, name)
        return node

    # --- turns ---

    def _run_once(self) -> None:
        self._now += TURN_SECONDS
        ready: deque[asyncio.Handle] = self._base._ready
        timers: list[asyncio.TimerHandle] = self._base._scheduled
        if self.resuming:
            self._release()
        self._drop_cancelled(timers)
        if not ready and not self._base._stopping:
            if not timers:
                raise SimulationStalled("nothing is ready and no timer is set")
            self._now = max(self._now, timers[0].when())
        while timers and timers[0].when() <= self._now:
            handle = heapq.heappop(timers)
            cast("Any", handle)._scheduled = False
            ready.append(handle)
        turn = list(ready)
        ready.clear()
        self._run_interleaved(turn)
        while self.dying:
            node = self.dying.pop(0)
            self._unwind(node, node.tasks, node.held)
            node.held = deque(maxlen=0)

    def _release(self) -> None:
        """Let what was held of resumed nodes go before all that is ready: it came first."""
        resuming, self.resuming = self.resuming, []
        for node in resuming:
            if node.alive and not node.paused:
                held, node.held = node.held, deque()
                self._base._ready.extendleft(reversed(held))

    def _drop_cancelled(self, timers: list[asyncio.TimerHandle]) -> None:
        """Forget cancelled timers at the front; all of them once they are the most."""
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

    def _run_interleaved(self, turn: list[asyncio.Handle]) -> None:
        queues: dict[Node | None, deque[asyncio.Handle]] = {}
        for handle in turn:
            node = cast("Any", handle)._context.get(_node)
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
        except BaseException:  # the simulation is broken off; `close` unwinds what did not have its turn
            for node in nodes:
                self._base._ready.extend(queues[node])
            raise

    @staticmethod
    def _run_handle(node: Node | None, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        if node is not None and (node.paused or not node.alive or node.held):  # held: it resumes with the next turn
            node.held.append(handle)
            return
        cast("Any", handle)._run()

    # --- the end of a node ---

    def _unwind(self, node: Node | None, tasks: dict[asyncio.Task[Any], None], held: deque[asyncio.Handle]) -> None:
        """Cancel the tasks of a dead node, and let them end, all in this moment and out of everybody's sight."""
        for task in list(tasks):
            task.cancel()
        own = deque(held)
        for _ in range(MAX_UNWINDING_STEPS):
            own.extend(self._take(self._base._ready, node))
            if not own:
                own.extend(self._take_first_timer(node))
            if not own or all(task.done() for task in tasks):
                break
            handle = own.popleft()
            if not handle.cancelled():
                cast("Any", handle)._run()
        assert all(task.done() for task in tasks), f"{node or 'the world'} does not come to its end: {list(tasks)}"

    def close(self) -> None:
        """End all nodes and what is left of the world; nothing remains, however the simulation ended."""
        if not self.is_closed() and not self.is_running():
            asyncio._set_running_loop(self)
            try:
                self._unwind_all()
            finally:
                asyncio._set_running_loop(None)
        super().close()

    def _unwind_all(self) -> None:
        for node in self._nodes.values():
            node.kill()
        for node in self.dying:
            self._unwind(node, node.tasks, node.held)
        self._unwind(None, self._world_tasks, deque())

    def task_made(self, task: asyncio.Task[Any], node: Node | None) -> None:
        """Know a task until it is done."""
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

    # --- what asyncio asks of a loop ---

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Listen on the simulated network."""
        return self.network.listen(factory, host, port)

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Connect over the simulated network."""
        return await self.network.connect(factory, host, port)

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def _process_events(self, event_list: Any) -> None:
        """There are no events from outside."""


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task, and let its node know it until it is done."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    context: contextvars.Context | None = options.get("context")
    cast("SimulatedLoop", loop).task_made(task, _node.get() if context is None else context.get(_node))
    return task


class SimulatedClock:
    """`purgatorio.broker.clock.Clock` over a simulated loop."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return int(self._loop.time() * 1000)

    def now_seconds(self) -> float:
        """Monotonic seconds."""
        return self._loop.time()

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, as the simulation has it."""
        return WALL_START_MS + int((self._loop.time() - START_SECONDS) * 1000)

    async def sleep(self, delay_ms: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(delay_ms / 1000)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        """See `Clock.call_later`."""
        return self._loop.call_later(delay_ms / 1000, callback, *args)
