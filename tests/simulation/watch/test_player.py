"""A recording that is played: by the clock, by steps, back, and to a moment; and the routes that say and do it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from purgatorio.purgatory.clock import ManualClock
from purgatorio.simulation.watch.failure import SeenAnomaly
from purgatorio.simulation.watch.player import LINES, MovePlayer, Player
from purgatorio.simulation.watch.server import READ_ONLY, WatchServer
from tests.simulation.watch.recorded import recorded

pytestmark = [pytest.mark.simulation, pytest.mark.process]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def player(clock: ManualClock) -> Player:
    report, recorder, _ = recorded()
    return Player("seed 2", recorder.frames, report.history, [], clock)


@pytest.fixture
async def client(player: Player, clock: ManualClock) -> AsyncIterator[httpx.AsyncClient]:
    app = WatchServer(player, clock)._create_app("127.0.0.1", None)
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as opened:
        yield opened


def test_it_begins_at_the_start_and_stands_still(player: Player, clock: ManualClock) -> None:
    clock.advance_ms(1_000)
    assert (player.number, player.playing) == (0, False)


def test_it_begins_at_the_first_failure(clock: ManualClock) -> None:
    report, recorder, _ = recorded()
    failed = [
        SeenAnomaly(recorder.frames[20].ms, "G1a orders-0: …"),
        SeenAnomaly(recorder.frames[30].ms, "gap orders-0: …"),
    ]
    player = Player("seed 2", recorder.frames, report.history, failed, clock)
    assert (player.number, player.playing) == (20, False)
    assert [each["says"] for each in player.state()["failures"]] == ["G1a orders-0: …", "gap orders-0: …"]


def test_it_plays_by_the_clock_at_its_speed_and_stops_at_the_end(player: Player, clock: ManualClock) -> None:
    begins = player.at_ms
    player.move(MovePlayer(playing=True))
    clock.advance_ms(500)
    assert player.at_ms == begins + 500
    player.move(MovePlayer(speed=4.0))
    clock.advance_ms(500)
    assert player.at_ms == begins + 500 + 2_000
    player.move(MovePlayer(playing=False))
    clock.advance_ms(500)
    assert player.at_ms == begins + 2_500
    player.move(MovePlayer(playing=True, speed=16.0))
    clock.advance_ms(100_000)
    assert (player.at_ms, player.playing) == (recorded().recorder.frames[-1].ms, False)
    player.move(MovePlayer(playing=True))
    assert (player.at_ms, player.playing) == (begins, True)


def test_steps_go_from_frame_to_frame_and_pause(player: Player) -> None:
    player.move(MovePlayer(playing=True))
    player.move(MovePlayer(step=3))
    assert (player.number, player.playing) == (3, False)
    player.move(MovePlayer(step=-1))
    assert player.number == 2
    player.move(MovePlayer(step=-1_000))
    assert player.number == 0


def test_after_a_step_back_the_page_takes_it_for_another_cluster(player: Player) -> None:
    """What it saw of the time after that moment would else stay in its tables."""
    player.move(MovePlayer(step=10))
    assert player.answer("state")["cluster_id"] == "seed 2"
    player.move(MovePlayer(step=-1))
    assert player.answer("state")["cluster_id"] == player.answer("matrix")["cluster_id"] == "seed 2, view 2"


def test_the_lines_are_those_of_the_history_so_far(player: Player) -> None:
    player.move(MovePlayer(to_ms=recorded().recorder.frames[25].ms))
    shown = player.state()
    assert len(shown["lines"]) == LINES
    assert shown["lines"][-1]["ms"] <= shown["at_ms"]
    assert shown["line_count"] == recorded().recorder.frames[25].events


async def test_the_page_is_served_with_the_player_and_answers_with_the_frame(client: httpx.AsyncClient) -> None:
    page = await client.get("http://127.0.0.1/")
    assert "/static/player.js" in page.text
    moved = await client.post("/player", json={"step": 25})
    assert moved.json()["frame"] == 25
    now_ms = recorded().recorder.frames[25].ms
    state = (await client.get("/state?operations=40&partitions=orders-0&since_ms=0")).json()
    assert state["now_ms"] == now_ms
    assert [(row["topic"], row["partition"]) for row in state["partitions"]] in ([], [("orders", 0)])
    assert (await client.get("/matrix")).json()["now_ms"] == now_ms
    assert (await client.get("/connections?limit=100")).json()["connection_count"] > 0
    marks = (await client.get("/player/marks")).json()
    assert {each["kind"] for each in marks["marks"]} == {"fault", "election"}


async def test_nothing_else_can_be_done_to_a_recording(client: httpx.AsyncClient) -> None:
    for answer in (await client.post("/brokers/1/kill", json={}), await client.get("/topics")):
        assert (answer.status_code, answer.json()) == (409, {"error": READ_ONLY})


@pytest.mark.parametrize("body", [{"step": 5_000}, {"speed": 0}, {"to_ms": -1}, {"playing": 1}, {"stop": True}])
async def test_what_the_player_cannot_do_is_refused(client: httpx.AsyncClient, body: dict[str, object]) -> None:
    answer = await client.post("/player", json=body)
    assert answer.status_code == 400
    assert next(iter(body)) in answer.json()["error"]


async def test_other_sites_cannot_move_it(client: httpx.AsyncClient) -> None:
    answer = await client.post("/player", json={"step": 1}, headers={"origin": "http://elsewhere.example"})
    assert answer.status_code == 403
