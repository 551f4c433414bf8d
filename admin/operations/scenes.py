"""Operations on scenes: lessons that are played on the living cluster of ``purgatorio learn``; no other has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from purgatorio.admin.operations.declare import Answer, Int32, Operation, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Lessons, Operator

SCENE_SECONDS: Final = 90.0
"""The longest wait of a client for a step, which is done when its consequences are to be seen."""
_THE_SCENE: Final = "the scene's name"


class ListScenes(Operation, http="GET /scenes"):
    """The scenes, and the one that is played: its step, its figures before that step and now."""

    async def run(self, operator: Operator) -> Answer:
        return _lessons(operator).listed()


class DescribeScene(Operation, http="GET /scenes/{name}"):
    """A scene with its steps, as a pytest and as a shell script."""

    name: str = arg(_THE_SCENE)

    async def run(self, operator: Operator) -> Answer:
        return _lessons(operator).described(self.name)


class StartScene(Operation, http="POST /scenes/{name}/start", patience_seconds=SCENE_SECONDS):
    """Empty the cluster, and begin a scene with its own clients; one is played at a time."""

    name: str = arg(_THE_SCENE)

    async def run(self, operator: Operator) -> Answer:
        return await _lessons(operator).start(self.name)


class StepScene(Operation, http="POST /scenes/{name}/step", patience_seconds=SCENE_SECONDS):
    """Do a step of the scene that is played; answers when its consequences are to be seen."""

    name: str = arg(_THE_SCENE)
    number: Int32 | None = arg("the step's number, from 1; the next one if it is not given", default=None)

    async def run(self, operator: Operator) -> Answer:
        return await _lessons(operator).step(self.name, self.number)


class StopScene(Operation, http="POST /scenes/{name}/stop", patience_seconds=SCENE_SECONDS):
    """End the scene that is played, and make the cluster as it was at its start."""

    name: str = arg(_THE_SCENE)

    async def run(self, operator: Operator) -> Answer:
        return await _lessons(operator).stop(self.name)


def _lessons(operator: Operator) -> Lessons:
    from purgatorio.broker.cluster.errors import OperationRefused

    if operator.lessons is None:
        raise OperationRefused("scenes are played by `purgatorio learn`")
    return operator.lessons
