"""A scene, as its TOML file says it.

::

    title = "acks=all and a slow follower"
    keep = "One sentence to keep."
    topics = [{ name = "orders", leader = 1, partitions = 1, configs = { "min.insync.replicas" = "2" } }]
    figures = [{ of = "shop.ack_ms", says = "acknowledged after, median", unit = "ms" }]

    [clients.shop]
    kind = "producer"                     # of `clients.KINDS`; all else are its keywords

    [[steps]]                             # the first one begins the scene
    button = "Delay broker 3's fetches"
    says = "What happens, in a sentence or two."
    acts = [
      { op = "ChangeFollower", id = 3, delay_ms = 400 },  # an operation of the table
      { client = "shop", does = "burst", records = 5 },   # a method of the client
      { client = "later", does = "begin" },               # clients begin at the first step, unless a step begins them
    ]
    cause = "FollowerBehind"              # what requests wait for then; "group NAME": what this group waits for
    until = { "shop.last" = "acknowledged", "orders-0.leader_epoch" = 1 }  # and what is true; a number: at least
    test = "Lines of the pytest"          # what the clients do, by confluent-kafka

A figure is a fact of a client (of a share member also `locked`, the records that are locked for it), or of the leader
of a partition: `high_watermark`, `log_end_offset`, `local_start_offset`, `last_stable_offset`, `leader`,
`leader_epoch`, `isr`. An exact one is the same whenever the scene is played.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Final

from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.late import dataclass

FOLDER: Final = Path(__file__).parent / "scenes"
BEGIN: Final = "begin"
_KNOWN: Final = {each.__name__: each for each in OPERATIONS}


@dataclass(frozen=True)
class SceneTopic:
    """A topic of a scene. `leader` is the broker that leads its partition 0."""

    name: str
    leader: int | None = None
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure: `of` names it, `says` is its label."""

    of: str
    says: str
    unit: str = ""
    exact: bool = False


@dataclass(frozen=True)
class Act:
    """A part of a step: an operation, or what a client does."""

    given: Mapping[str, Any]
    op: str = ""
    client: str = ""
    does: str = ""

    def operation(self) -> Operation:
        """Make the operation of the act, with the arguments that it gives."""
        return self.kind(**self.given)

    @property
    def kind(self) -> type[Operation]:
        """Its class."""
        return _KNOWN[self.op]


@dataclass(frozen=True)
class Step:
    """A step of a scene; see the head of this file."""

    button: str
    says: str
    acts: tuple[Act, ...] = ()
    cause: str = ""
    until: Mapping[str, int | str] = field(default_factory=dict)
    test: str = ""


@dataclass(frozen=True)
class Scene:
    """A scene; see the head of this file. `number` is its place among all."""

    number: int
    name: str
    title: str
    keep: str
    topics: tuple[SceneTopic, ...]
    clients: Mapping[str, Mapping[str, Any]]
    figures: tuple[Figure, ...]
    steps: tuple[Step, ...]
    settings: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def begins(self) -> list[str]:
        """The clients that begin with the scene."""
        later = {act.client for step in self.steps for act in step.acts if act.does == BEGIN}
        return [name for name in self.clients if name not in later]


@cache
def scenes() -> dict[str, Scene]:
    """Return all scenes by name, in their order."""
    read = [_read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return {scene.name: scene for scene in read}


def _read(path: Path) -> Scene:
    """Read a scene; its file is named by its number and its name: ``01_acks_all.toml``."""
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    number, _, name = path.stem.partition("_")
    return Scene(
        **{
            **told,
            "number": int(number),
            "name": name.replace("_", "-"),
            "topics": tuple(SceneTopic(**each) for each in told["topics"]),
            "figures": tuple(Figure(**each) for each in told["figures"]),
            "steps": tuple(_step(each) for each in told["steps"]),
        }
    )


def _step(told: dict[str, Any]) -> Step:
    return Step(**{**told, "acts": tuple(_act(each) for each in told.get("acts", ()))})


def _act(told: dict[str, Any]) -> Act:
    named = {name: told[name] for name in ("op", "client", "does") if name in told}
    return Act({name: value for name, value in told.items() if name not in named}, **named)
