"""The screen of `purgatorio top`, driven by keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("textual", reason="these tests need textual")

from textual import events
from textual.widgets import Input

from purgatorio.admin.cli.top.app import Top
from purgatorio.admin.cli.top.views import VIEWS
from tests.admin.cli.top.screens import EVIL, FakeCluster, text_of

pytestmark = pytest.mark.slow


class Screen:
    """The screen, and the keys of its user."""

    def __init__(self, app: Top, pilot: Any) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> str:
        """Press keys, wait until the cluster has been asked, and return the screen."""
        await self._pilot.press(*keys)
        return await self.look()

    async def look(self) -> str:
        await self.app.workers.wait_for_complete()
        await self.app.poll()
        await self._pilot.pause()
        return text_of(self.app)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@asynccontextmanager
async def opened(cluster: FakeCluster, **options: Any) -> AsyncIterator[Screen]:
    app = Top(cluster, interval_seconds=None, **options)
    async with app.run_test(size=(140, 30)) as pilot:
        screen = Screen(app, pilot)
        await screen.look()
        yield screen


VIEWS_SHOW = {
    "parked": ("134 produce", "Produce 0 on 1", "134 produce requests of 12 clients wait for broker 3", "broker 2"),
    "groups": ("a-group-with-a-name-of-its-own-0", "PreparingRebalance", "1234567"),
    "txn": ("a-transactional-id-with-a-name-of-its-own-1", "PrepareCommit", "1234"),
    "share": ("workers", "in flight 3, acquired 2, done 9"),
    "brokers": ("127.0.0.1:9092", "running", "CTRL"),
    "partitions": ("orders-0", "2 -8", "waits"),
    "faults": ("api=Fetch hold", "MATCHED"),
    "wheel": ("400 ms", "345", "████"),
}


def test_every_view_is_tried() -> None:
    assert set(VIEWS_SHOW) == set(VIEWS)


@pytest.mark.parametrize("name", VIEWS)
async def test_a_view_shows(cluster: FakeCluster, name: str) -> None:
    async with opened(cluster) as screen:
        shown = await screen.press("colon", *name, "enter")
    assert [text for text in VIEWS_SHOW[name] if text not in shown] == []
    assert f":{name} [" in shown.splitlines()[0]
    assert VIEWS[name].asks.path.strip("/") in {path.partition("?")[0] for path in cluster.asked}


@pytest.mark.parametrize("name", VIEWS)
async def test_a_view_of_nothing_says_so(cluster: FakeCluster, name: str) -> None:
    lists = ("waits", "brokers", "rows", "groups", "transactions", "share_groups", "faults")
    for answer in cluster.answers.values():
        answer.update({each: [] for each in lists if each in answer})
    async with opened(cluster) as screen:
        assert VIEWS[name].nothing in await screen.press("colon", *name, "enter")


async def test_parked_comes_first_and_its_first_row_is_the_worst_cause(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        lines = (await screen.look()).splitlines()
    assert lines[0].startswith("http://localhost:9644 :parked")
    assert "134 produce" in lines[2]


async def test_a_filter_leaves_the_rows_with_a_text(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        shown = await screen.press("slash", *"produce", "space", *"4", "space", *"on", "space", *"2", "enter")
        assert "Produce 4 on 2" in shown
        assert "Produce 4 on 1" not in shown
        assert "No row has" in await screen.press("slash", *"nowhere", "enter")
        assert "Produce 4 on 1" in await screen.press("escape")


async def test_a_view_may_be_typed_with_a_filter_and_in_part(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        shown = await screen.press("colon", *"part", "space", "slash", *"orders-3", "enter")
    assert "orders-3" in shown
    assert "orders-4" not in shown


@pytest.mark.parametrize(
    ("text", "view"),
    [(":txn", "parked"), (":groups", "parked"), (":txn\n", "txn"), (":groups\r\n", "groups"), (" hkrx\n", "parked")],
)
async def test_a_paste_is_typed_and_runs_nothing(cluster: FakeCluster, text: str, view: str) -> None:
    async with opened(cluster) as screen:
        screen.app.post_message(events.Paste(text))
        shown = await screen.press()
        line = screen.app.query_one("#typed", Input)
        assert (line.display, line.value if line.display else "") == ((True, text) if text[-1] in "ns" else (False, ""))
        assert f":{view} [" in shown
        assert "What was pasted is left out" in shown or text.startswith(":")
    assert cluster.posted == []


@pytest.mark.parametrize(("text", "view"), [(":txn", "txn"), (":groups", "groups"), ("/hrx", "parked")])
async def test_keys_that_come_all_at_once_are_typed_and_run_nothing(cluster: FakeCluster, text: str, view: str) -> None:
    """As a terminal sends a paste that does not mark it as one."""
    names = {":": "colon", "/": "slash"}
    async with opened(cluster) as screen:
        for letter in text:
            screen.app.post_message(events.Key(names.get(letter, letter), letter))
        screen.app.post_message(events.Key("enter", None))
        shown = await screen.press()
    assert f":{view} [" in shown or f":{view} /hrx [" in shown
    assert cluster.posted == []


async def test_an_unknown_view_is_refused_with_those_that_there_are(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        shown = await screen.press("colon", *"pods", "enter")
    assert "There is no view 'pods', only parked, groups" in shown
    assert ":parked [" in shown


async def test_minus_goes_back_and_forth_between_two_views(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *"faults", "enter")
        assert ":parked [" in await screen.press("minus")
        assert ":faults [" in await screen.press("minus")


async def test_enter_says_why(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("slash", *"produce", "space", *"4", "space", *"on", "space", *"2", "enter")
        shown = await screen.press("enter")
        for said in (
            "Produce 4 of broker 2 waits for: broker 2",
            "keys: orders-0",
            "deadline in 3.6 s",
            "FollowerBehind",
        ):
            assert said in shown
        assert "FollowerBehind" not in await screen.press("escape")


async def test_help_tells_the_view_and_the_keys(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *"wheel", "enter")
        shown = await screen.press("question_mark")
    assert VIEWS["wheel"].says in shown
    assert "kill asks first" in shown


@pytest.mark.parametrize(
    ("view", "key", "posted"),
    [
        ("parked", "r", ("brokers/3/follower", {"held": False})),
        ("parked", "h", ("brokers/3/follower", {"held": True})),
        ("brokers", "h", ("brokers/1/follower", {"held": True})),
        ("brokers", "r", ("brokers/1/follower", {"held": False})),
        ("groups", "x", ("groups/a-group-with-a-name-of-its-own-0/expire-member", {})),
        ("txn", "x", ("transactions/a-transactional-id-with-a-name-of-its-own-0/expire", {})),
        ("share", "x", ("share-groups/workers/expire-locks", {})),
        ("faults", "r", ("faults/7/release", {})),
    ],
)
async def test_a_key_does_an_operation(cluster: FakeCluster, view: str, key: str, posted: Any) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *view, "enter")
        shown = await screen.press(key)
    assert cluster.posted == [posted]
    assert "Done: " in shown


async def test_x_expires_the_operation_under_the_cursor(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("slash", *"produce", "space", *"4", "space", *"on", "space", *"2", "enter")
        await screen.press("x")
    assert cluster.posted == [("brokers/2/purgatories/Produce/operations/4/expire", {})]


async def test_a_kill_asks_first(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *"brokers", "enter")
        assert "Really kill broker 1?" in await screen.press("k")
        await screen.press("n")
        assert cluster.posted == []
        await screen.press("k", "y")
    assert cluster.posted == [("brokers/1/kill", {})]


async def test_what_a_row_cannot_do_is_said(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *"partitions", "enter")
        assert "There is nothing to expire here." in await screen.press("x")


async def test_readonly_changes_nothing(cluster: FakeCluster) -> None:
    async with opened(cluster, readonly=True) as screen:
        shown = await screen.press("r")
        await screen.press("k")
    assert "nothing is changed" in shown
    assert "readonly" in shown.splitlines()[0]
    assert cluster.posted == []


async def test_what_is_frozen_stays(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *"faults", "enter")
        await screen.press("p")
        cluster.answers["faults"]["faults"][0]["text"] = "changed meanwhile"
        shown = await screen.look()
        assert "api=Fetch hold" in shown
        assert "frozen" in shown.splitlines()[0]
        assert "changed meanwhile" in await screen.press("p")


async def test_the_cursor_stays_on_its_row(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        await screen.press("colon", *"partitions", "enter")
        await screen.press("down", "down")
        cluster.answers["matrix"]["rows"].insert(0, ["first", 0, 1, 3, "", [[1, 0, 1]]])
        await screen.look()
        selected = screen.app._selected()
    assert selected is not None
    assert selected.key == "orders-2"


async def test_a_cluster_that_is_gone_is_said_and_comes_back(cluster: FakeCluster) -> None:
    async with opened(cluster) as screen:
        cluster.trouble = "no server listens at http://localhost:9644"
        shown = await screen.look()
        assert "no server listens at http://localhost:9644. Asking again every 2 s." in shown
        assert "Produce 0 on 1" in shown, "what was seen last stays"
        assert "Not done: no server" in await screen.press("r") or "Asking again" in text_of(screen.app)
        cluster.trouble = ""
        assert "Asking again" not in await screen.look()


async def test_another_version_is_said(cluster: FakeCluster) -> None:
    del cluster.answers["state"]["waits"]
    async with opened(cluster) as screen:
        assert "lacks waits: the cluster may run another version" in await screen.look()


async def test_names_that_clients_chose_are_never_markup(cluster: FakeCluster) -> None:
    """Nor do they act on the terminal."""
    state = cluster.answers["state"]
    state["waits"][0]["says"] = state["waits"][0]["clients"] = EVIL
    for purgatory in state["brokers"][0]["purgatories"]:
        for operation in purgatory["operations"]:
            operation |= {"client": EVIL, "missing": EVIL, "keys": [EVIL]}
    cluster.answers["groups"]["groups"][0]["id"] = EVIL
    async with opened(cluster) as screen:
        shown = [await screen.look(), await screen.press("enter")]
        await screen.press("escape")
        shown += [await screen.press("down", "down", "down", "down", "down", "down", "down", "enter")]
        await screen.press("escape")
        shown += [await screen.press("colon", *"groups", "enter"), await screen.press("enter")]
        shown += [await screen.press("escape", "slash", "left_square_bracket", *"red", "enter")]
        shown += [await screen.press("colon", "left_square_bracket", *"red", "right_square_bracket", "enter")]
    for each in shown[:5]:
        assert "[red]evil[/red] ?[31m" in each
        assert "\x1b" not in each
    assert "There is no view '[red]'" in shown[-1]
