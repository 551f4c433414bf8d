"""The scenes of a cluster, and the one that is played: what the operations on scenes are given."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from purgatorio.admin.learn.copying import as_pytest, as_shell
from purgatorio.admin.learn.playing import Playing
from purgatorio.admin.learn.scene import Scene, scenes
from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.snapshots import Reset
from purgatorio.broker.cluster.errors import NotThere, OperationRefused

STATIC: Final = Path(__file__).parent / "static"
"""Files that the page has beside its own, if it offers scenes."""


class SceneLessons:
    """Plays one scene at a time; `take` gives it the cluster.

    A scene begins and ends with a reset of the cluster, so that it is the same each time, and leaves nothing.
    """

    def __init__(self) -> None:
        self._operator: Operator | None = None
        self._playing: Playing | None = None
        self._is_changing = False

    def take(self, operator: Operator) -> None:
        """Play on a cluster from now on."""
        self._operator = operator
        operator.lessons = self

    async def close(self) -> None:
        """End the clients of a scene that is played."""
        if self._playing is not None:
            await self._playing.end()

    @property
    def playing(self) -> Playing | None:
        """The scene that is played now; None: none is."""
        return self._playing

    def listed(self) -> Answer:
        rows = [{"name": each.name, "number": each.number, "title": each.title} for each in scenes().values()]
        return {"scenes": rows, "playing": None if self._playing is None else self._playing.shown()}

    def described(self, name: str) -> Answer:
        scene = _found(name)
        steps = [{"button": step.button, "says": step.says, "cause": step.cause} for step in scene.steps]
        told = {"name": scene.name, "number": scene.number, "title": scene.title, "keep": scene.keep, "steps": steps}
        return {**told, "pytest": as_pytest(scene), "shell": as_shell(scene)}

    async def start(self, name: str) -> Answer:
        scene = _found(name)
        if self._playing is not None:
            raise OperationRefused(f"scene {self._playing.scene.name} is played: end it first")
        operator = self._alone()
        try:
            await Reset().run(operator)
            operator.rng = random.Random(scene.number)  # topics are placed as the last time
            playing = self._playing = Playing(scene, operator)
        finally:
            self._is_changing = False
        await playing.begin()
        return playing.shown()

    async def step(self, name: str, number: int | None) -> Answer:
        playing = self._played(name)
        if number is None and playing.at + 1 == len(playing.scene.steps):
            raise OperationRefused(f"scene {name} has no further step: end it, or do one again by its number")
        await playing.step(playing.at + 1 if number is None else number)
        return playing.shown()

    async def stop(self, name: str) -> Answer:
        playing = self._played(name)
        operator = self._alone()
        try:
            await playing.end()
            await Reset().run(operator)
            self._playing = None
        finally:
            self._is_changing = False
        return {"name": name, "state": "ended"}

    def _alone(self) -> Operator:
        """Return the operator, while no other scene begins or ends."""
        assert self._operator is not None, "it has a cluster"
        if self._is_changing:
            raise OperationRefused("a scene begins or ends; try again when it has")
        self._is_changing = True
        return self._operator

    def _played(self, name: str) -> Playing:
        _found(name)
        if self._playing is None or self._playing.scene.name != name:
            raise OperationRefused(f"scene {name} is not played: start it first")
        return self._playing


def _found(name: str) -> Scene:
    known = scenes()
    if name not in known:
        raise NotThere(f"there is no such scene, only {', '.join(known)}")
    return known[name]
