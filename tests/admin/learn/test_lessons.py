"""Scenes are played one at a time, by steps, on a cluster that has nothing of them before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from purgatorio.admin.learn.scene import FOLDER, scenes
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.scenes import ListScenes
from purgatorio.broker.cluster.errors import NotThere, OperationRefused
from purgatorio.broker.metadata.topic_name import is_internal
from tests.admin.learn.conftest import Taught

TRACES = Path(__file__).parent / "traces"
MOST_LINES = 60


@pytest.mark.slow
@pytest.mark.parametrize("name", scenes())
async def test_a_scene_is_seen_as_its_golden_trace_says_and_leaves_nothing(taught: Taught, name: str) -> None:
    """Each step, the cause that requests wait for, and the figures that are the same each time."""
    lessons, cluster = taught.lessons, taught.cluster
    before = asyncio.all_tasks()
    await lessons.start(name)
    for _ in scenes()[name].steps[1:]:
        await lessons.step(name, None)
    assert lessons.playing is not None
    trace = "\n".join(lessons.playing.trace) + "\n"
    await lessons.stop(name)
    image = taught.operator.image
    assert trace == (TRACES / f"{name}.txt").read_text()
    assert [topic for topic in image.topics if not is_internal(topic)] == []
    assert [each.broker_id for each in cluster.brokers] == [1, 2, 3]
    assert (image.client_quotas, cluster.faults.rules) == ({}, [])
    assert all((each.gate.held, each.gate.delay_ms) == (False, 0) for each in cluster.brokers)
    assert [each.get_name() for each in asyncio.all_tasks() - before if each.get_name().startswith("scene")] == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_scene_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_each_scene_has_a_number_and_a_trace_of_its_own() -> None:
    assert [scene.number for scene in scenes().values()] == list(range(1, len(scenes()) + 1))
    assert {path.stem for path in TRACES.glob("*.txt")} == set(scenes())


@pytest.mark.slow
async def test_two_scenes_at_a_time_are_refused(taught: Taught) -> None:
    first, *_ = scenes()
    await taught.lessons.start(first)
    with pytest.raises(OperationRefused, match=rf"^scene {first} is played: end it first$"):
        await taught.lessons.start(first)
    with pytest.raises(OperationRefused, match="has 2 steps, and no step 9"):
        await taught.lessons.step(first, 9)
    await taught.lessons.stop(first)


@pytest.mark.slow
async def test_a_scene_that_is_ended_in_the_middle_of_a_step_ends(taught: Taught) -> None:
    first, *_ = scenes()
    await taught.lessons.start(first)
    step = asyncio.create_task(taught.lessons.step(first, None))
    await asyncio.sleep(0)
    await taught.lessons.stop(first)
    with pytest.raises(OperationRefused, match="the scene was ended"):
        await step
    assert taught.lessons.listed()["playing"] is None


@pytest.mark.slow
async def test_a_scene_that_is_ended_while_its_step_starts_a_broker_ends(taught: Taught) -> None:
    """The broker's start goes to its end first, since a cluster of which a broker starts cannot be reset."""
    await taught.lessons.start("leader-dies")
    await taught.lessons.step("leader-dies", None)
    async with asyncio.TaskGroup() as tasks:
        step = tasks.create_task(_refused(taught.lessons.step("leader-dies", None)))
        await asyncio.sleep(0)  # the step has begun
        assert await taught.lessons.stop("leader-dies") == {"name": "leader-dies", "state": "ended"}
        assert await step == "the scene was ended"


async def _refused(asked: Awaitable[object]) -> str:
    with pytest.raises(OperationRefused) as refused:
        await asked
    return str(refused.value)


@pytest.mark.slow
async def test_what_is_not_played_has_no_steps_and_no_end(taught: Taught) -> None:
    lessons = taught.lessons
    first, *_ = scenes()
    with pytest.raises(NotThere, match=f"there is no such scene, only {first}"):
        await lessons.start("nothing")
    for call in (lessons.step(first, None), lessons.stop(first)):
        with pytest.raises(OperationRefused, match=f"scene {first} is not played: start it first"):
            await call


@pytest.mark.slow
async def test_another_cluster_has_no_scenes(taught: Taught) -> None:
    plain = Operator(taught.cluster, taught.operator.control)
    with pytest.raises(OperationRefused, match="scenes are played by `purgatorio learn`"):
        await ListScenes().run(plain)
