"""Plays a recorded simulation: a position in it, which moves with the machine's clock, by steps, or to a moment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, Any, Final

from purgatorio.admin.operations.declare import Answer, Int64, Limits, Operation, arg
from purgatorio.admin.operations.operator import Operator
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import Fault, History, LeaderElected, UncleanElection
from purgatorio.simulation.watch.failure import SeenAnomaly
from purgatorio.simulation.watch.recorder import Frame

LINES: Final = 60
"""The last lines of the clients' history that are shown."""
LINE_CHARS: Final = 200
MAX_MARKS: Final = 1_000
"""The first faults and elections that are marked."""
MAX_STEP: Final = 1_000
SLOWEST, FASTEST = 0.1, 16.0


class _OfRecording:
    """Requests that only a recording answers."""

    async def run(self, operator: Operator) -> Answer:
        raise OperationRefused("a living cluster has no player: `purgatorio simulate --watch` has one")


class ShowPlayer(_OfRecording, Operation, http="GET /player"):
    """Where the recording of a simulated seed is, how it failed, and the last lines of its clients' history by then."""


class ListMarks(_OfRecording, Operation, http="GET /player/marks"):
    """The faults and elections of the seed, with their times."""


class MovePlayer(_OfRecording, Operation, http="POST /player"):
    """Play or pause the recording, change its speed, step by frames, or go to a moment."""

    playing: bool | None = arg("true plays on, false pauses", default=None)
    speed: Annotated[float, Limits(ge=SLOWEST, le=FASTEST, finite=True)] | None = arg(
        f"virtual seconds in a second, {SLOWEST:g} to {FASTEST:g}", default=None
    )
    step: Annotated[int, Limits(ge=-MAX_STEP, le=MAX_STEP)] | None = arg(
        "so many frames forward, or back if it is negative; pauses", default=None
    )
    to_ms: Int64 | None = arg("to this moment, on the clock of now_ms; pauses", default=None)


class Player:
    """Plays a recording that has at least one frame. It begins paused: at the first failure, or else at the start.

    Args:
        name: what the page calls the cluster.
        clock: the machine's.
        failures: what failed, the earliest first.
    """

    def __init__(
        self, name: str, frames: Sequence[Frame], history: History, failures: Sequence[SeenAnomaly], clock: Clock
    ) -> None:
        self._name = name
        self._frames = frames
        self._times = [frame.ms for frame in frames]
        self._history = history
        self._failures = failures
        self._clock = clock
        self._at_ms: float = failures[0].ms if failures else self._times[0]
        self._since_ms: int | None = None
        self._speed = 1.0
        self._views = 1
        self._unpacked: tuple[int, dict[str, Answer]] = (-1, {})

    # --- the position ---

    @property
    def at_ms(self) -> float:
        """The moment that is shown, on the simulation's clock."""
        passed_ms = 0.0 if self._since_ms is None else (self._clock.now_ms() - self._since_ms) * self._speed
        return min(self._at_ms + passed_ms, self._times[-1])

    @property
    def number(self) -> int:
        """The number of the frame that is shown, from 0."""
        return max(0, bisect_right(self._times, self.at_ms) - 1)

    @property
    def playing(self) -> bool:
        """Whether it moves."""
        return self._since_ms is not None and self.at_ms < self._times[-1]

    def move(self, asked: MovePlayer) -> None:
        """Do what is asked."""
        playing = self.playing
        if asked.step is not None:
            number = min(max(0, self.number + asked.step), len(self._frames) - 1)
            self._go(self._times[number])
            playing = False
        if asked.to_ms is not None:
            self._go(min(max(asked.to_ms, self._times[0]), self._times[-1]))
            playing = False
        self._go(self.at_ms)
        self._speed = self._speed if asked.speed is None else asked.speed
        playing = playing if asked.playing is None else asked.playing
        if asked.playing and self.at_ms >= self._times[-1]:
            self._go(self._times[0])
        self._since_ms = self._clock.now_ms() if playing else None

    def _go(self, ms: float) -> None:
        """Go to a moment and stand still. After a step back the page has to forget what it saw of the time after it."""
        self._views += ms < self.at_ms
        self._at_ms, self._since_ms = ms, None

    # --- what the page asks for ---

    def answer(self, route: str) -> Answer:
        """Return what a route answers at the moment that is shown; `route` is "state", "matrix" or "connections"."""
        number = self.number
        if self._unpacked[0] != number:
            self._unpacked = number, self._frames[number].answers()
        answer = self._unpacked[1][route]
        if "cluster_id" not in answer:
            return answer
        return {**answer, "cluster_id": self._name if self._views == 1 else f"{self._name}, view {self._views}"}

    def state(self) -> Answer:
        """Return where it is, and what the clients saw last."""
        number, frame = self.number, self._frames[self.number]
        events = self._history.part(max(0, frame.events - LINES), frame.events)
        return {
            "name": self._name,
            "at_ms": frame.ms,
            "frame": number,
            "frames": len(self._frames),
            "begins_ms": self._times[0],
            "ends_ms": self._times[-1],
            "playing": self.playing,
            "speed": self._speed,
            "failures": [each._asdict() for each in self._failures],
            "lines": [self._line(event) for event in events],
            "line_count": frame.events,
        }

    def marks(self) -> Answer:
        """Return the faults and elections."""
        marked: list[dict[str, Any]] = []
        for event in self._history:
            if isinstance(event, Fault):
                marked.append({"ms": event.time_ms, "says": event.what, "kind": "fault"})
            elif isinstance(event, LeaderElected):
                says = f"{event.partition}: leader epoch {event.leader_epoch}, broker {event.broker}"
                marked.append({"ms": event.time_ms, "says": says, "kind": "election"})
        return {"marks": marked[:MAX_MARKS], "mark_count": len(marked)}

    def _line(self, event: Event) -> Answer:
        told = " ".join(f"{name}={value}" for name, value in vars(event).items() if name != "time_ms")
        cut = told if len(told) <= LINE_CHARS else told[: LINE_CHARS - 1] + "…"
        is_of_cluster = isinstance(event, (Fault, LeaderElected, UncleanElection))
        return {"ms": event.time_ms, "type": type(event).__name__, "says": cut, "cluster": is_of_cluster}
