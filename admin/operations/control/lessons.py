"""What the operations on scenes need of what plays them."""

from __future__ import annotations

from typing import Any, Protocol


class Lessons(Protocol):
    """The scenes of a cluster, and the one that is played; `purgatorio.admin.learn` has them.

    Every method but the first two raises OperationRefused with a sentence, if it cannot be done now.
    """

    def listed(self) -> dict[str, Any]:
        """Return all scenes in their order, and the state of the one that is played."""

    def described(self, name: str) -> dict[str, Any]:
        """Return a scene with its steps, as a pytest, and as a shell script; NotThere if there is none."""

    async def start(self, name: str) -> dict[str, Any]:
        """Empty the cluster, and begin a scene."""

    async def step(self, name: str, number: int | None) -> dict[str, Any]:
        """Do a step of the scene that is played; None: the next one."""

    async def stop(self, name: str) -> dict[str, Any]:
        """End the scene, and empty the cluster."""
