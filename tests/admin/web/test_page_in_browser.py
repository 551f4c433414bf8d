"""The page in a browser that is driven: by keyboard, on three screens, in both themes, with names like markup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.admin.web.served_page import BROWSER, GROUP, SHARE_GROUP, Served, serve, state

playwright = pytest.importorskip("playwright.sync_api", reason="these tests need playwright")

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="these tests need chromium"),
]

SCREENS = {"laptop": (1280, 720), "desktop": (1920, 1080), "phone": (390, 844)}
MARKUP = "<img src=x onerror=document.body.dataset.broken=1><b>"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def served() -> Iterator[Served]:
    with serve() as page:
        yield page


@pytest.fixture
def opened(browser: Any, served: Served) -> Iterator[Open]:
    """Open the page on a screen; a failure in it, and what its console says, fails the test."""
    contexts, failures = [], []

    def open_page(screen: str = "laptop", hash_: str = "", **options: Any) -> Any:
        width, height = SCREENS[screen]
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(served.url + hash_)
        page.wait_for_selector(".broker, .status[data-state=silent]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failures == []


def lit(page: Any) -> set[str]:
    return set(page.eval_on_selector_all(".lit", "found => found.map((each) => each.id)"))


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_screen_in_any_theme(opened: Open, screen: str, theme: str) -> None:
    """Contrast of AA, names for all that can be touched, roles, order of headings."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="this test needs axe").Axe()
    page = opened(screen, color_scheme=theme, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate("document.querySelectorAll('.row[aria-expanded=false]').forEach((each) => each.click())")
    page.keyboard.press("Escape")
    page.wait_for_timeout(400)
    violations = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["target"], each["nodes"][0]["failureSummary"]) for each in violations] == []


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_is_not_wider_than_the_screen(opened: Open, screen: str) -> None:
    page = opened(screen)
    page.wait_for_selector(".matrix-row")
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen][0]


def test_the_buttons_of_an_answer_are_its_ways_out(opened: Open, served: Served) -> None:
    page = opened()
    page.locator(".answer").first.get_by_role("button", name="Release fetches").click()
    page.wait_for_timeout(100)
    assert served.posted == [("brokers/3/follower", {"held": False})]


def test_all_causes_are_shown_when_they_are_asked_for(opened: Open) -> None:
    page = opened()
    assert page.locator(".answer").count() == 4
    page.get_by_role("button", name="and 1 more cause").click()
    page.wait_for_function("document.querySelectorAll('.answer').length === 5")


def test_a_request_lights_up_with_all_that_it_has_to_do_with(opened: Open) -> None:
    page = opened()
    page.wait_for_selector(".matrix-row")
    page.locator("#operations .pick").first.click()
    first = page.locator("#operations > li").first.get_attribute("id")
    assert page.url.endswith(f"#{first}")
    assert {first, "broker-2", "partition-orders-0", "partition-orders-1"} <= lit(page)
    assert "broker-1" not in lit(page)
    assert [each for each in lit(page) if each.startswith("operation-")] == [first]
    assert page.locator("#selected-name").inner_text() == "Produce 0 of broker 1"
    page.keyboard.press("Escape")
    assert (lit(page), page.url.partition("#")[2]) == (set(), "")


def test_the_tier_has_a_strip_for_each_partition_which_says_itself(opened: Open, served: Served) -> None:
    page = opened()
    assert (
        page.locator("#tier-says li").first.inner_text().startswith("150 kB of orders-0 are not copied: s3://shop has")
    )
    cells = page.locator("#tier-strips > li").first.locator(".run > span")
    labels = [cells.nth(number).get_attribute("aria-label") for number in range(cells.count())]
    assert labels == [
        "[0, 500): only in the tier, 500 kB in 5 segments",
        "[500, 600): cannot be read from the tier, 100 kB in 1 segment: 100 bytes came of 1000 at 0",
        "[600, 1\u202f200): only in the tier, 600 kB in 6 segments",
        "[1\u202f200, 2\u202f000): in the tier and in memory, 800 kB in 8 segments",
        "[2\u202f000, 2\u202f150): only in memory, 150 kB in 1 segment",
    ]
    read = "Broker 1 reads orders-0 [0, 100), 100 kB: 340 ms, third try (503)"
    assert page.locator("#tier-reads li").inner_text() == read
    assert page.locator("#tier-more").inner_text() == "and 1 partition more"
    page.locator("#tier-strips .pick").first.click()
    assert page.url.endswith("#partition-orders-0")
    assert served.state is not None
    served.state["tier"] = None
    page.wait_for_function("document.getElementById('tier-section').hidden")


def test_a_link_shows_the_same_selection(opened: Open) -> None:
    page = opened(hash_="#broker-2")
    page.wait_for_function("document.querySelectorAll('.operation.lit').length > 0")
    assert page.locator(".broker.chosen h3").inner_text() == "Broker 2"
    assert "broker-3" not in lit(page)
    page.locator("#let-go").click()
    assert lit(page) == set()


@pytest.mark.parametrize("hash_", ["#partition-%zz", "#operation-", "#main", "#<b>", "#broker-99"])
def test_a_link_to_nothing_leaves_the_page_whole(opened: Open, hash_: str) -> None:
    assert opened(hash_=hash_).locator(".broker").count() == 3


def test_the_keyboard_does_what_the_pointer_does(opened: Open, served: Served) -> None:
    """After the link that skips comes the first answer; Enter selects it, and the next stop is its way out."""
    page = opened()
    page.wait_for_selector(".matrix-row")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#cause-FollowerBehind-0")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    assert [path for path, _ in served.posted] == ["brokers/3/follower"]
    page.locator(".matrix-row").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "partition-orders-1"
    was_open = page.locator("#partition-orders-1").get_attribute("aria-expanded")
    page.keyboard.press("Enter")
    assert page.locator("#partition-orders-1").get_attribute("aria-expanded") != was_open


def test_names_that_clients_chose_are_never_markup(opened: Open, served: Served) -> None:
    def chosen(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: chosen(each) if name not in kept else each for name, each in value.items()}
        if isinstance(value, list):
            return [chosen(each) for each in value]
        return MARKUP + value if isinstance(value, str) else value

    kept = {"kind", "state", "type", "path", "cluster_id", "outcome", "name"}
    served.state, served.matrix = chosen(state()), chosen(served.matrix)
    connection = {"broker": 1, "id": 1, "age_ms": 1, "in_flight": 0, "waiting": 0, "bytes_in": 0, "bytes_out": 0}
    names = dict.fromkeys(("principal", "client", "peer", "listener"), MARKUP)
    served.connections = {"connections": [connection | names], "connection_count": 1}
    page = opened()
    page.wait_for_selector(".matrix-row")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for_selector("#client-rows tr")
    page.locator("#operations .pick").first.click()
    for row in page.locator(".row[aria-expanded]").all():
        row.click()
    assert page.locator("main img, main b, .selected b").count() == 0
    assert page.evaluate("document.body.dataset.broken") is None
    assert MARKUP in page.locator(".answer").first.inner_text()


def test_the_card_of_a_group_says_why_its_members_get_nothing(opened: Open, served: Served) -> None:
    says = "two owns no partition: orders has one, which one owns"
    served.why["conclusions"] = [
        {"says": says, "about": [GROUP, "two"], "weight": 90},
        {"says": "other waits", "about": ["other"], "weight": 90},
    ]
    page = opened()
    card = page.locator(f"[id='group-{GROUP}']")
    assert not card.locator(".group-why").is_visible(), "nothing is asked for while all are lines"
    card.locator(".row").click()
    card.get_by_text(says).wait_for()
    assert card.locator(".group-why").inner_text() == f"{says}."
    assert page.locator(".group-why:visible").count() == 1


# --- share groups ---


def opened_share_group(opened: Open, **options: Any) -> Any:
    """The page with the share group opened."""
    page = opened(**options)
    page.locator(f"[id='group-{SHARE_GROUP}'] .row").click()
    page.wait_for_selector("#groups .share")
    return page


def runs(page: Any, share: int) -> list[str]:
    """What the cells of a strip tell of themselves."""
    cells = page.locator("#groups .share").nth(share).locator(".run")
    return list(cells.evaluate_all("all => all.map((each) => each.title)"))


def test_a_share_partition_is_a_strip_of_runs_of_one_state(opened: Open) -> None:
    page = opened_share_group(opened)
    assert runs(page, 0) == [
        "0–11: acquired by ada-the-worker, delivered 1 time, 23 s left",
        "12: acquired by ada-the-worker, acknowledged once that is written, delivered 1 time, 23 s left",
        "13–14: acknowledged, delivered 1 time",
        "15: given up, delivered 1 time",
        "16: given up, on the way to the dead-letter topic, delivered 1 time",
        "17: no records for members",
        "18–40: available again, delivered 1 time",
        "41–47: not delivered yet",
    ]
    says = [each.inner_text() for each in page.locator("#groups .share-says").all()]
    assert says[0] == "start 0 · end 40 · 1\u202f234 records to do · broker 1 · first lock runs out in 23 s"
    assert says[2] == "its state is initializing at broker 1"
    lag = page.locator(f"[id='group-{SHARE_GROUP}'] .row .cell").nth(3).inner_text()
    assert lag == "3\u202f702 records behind", "that of all its partitions"


def test_a_strip_that_is_cut_tells_it(opened: Open) -> None:
    cells = runs(opened_share_group(opened), 1)
    assert len(cells) == 41
    assert cells[-1] == "40–1\u202f999: in flight, not shown by their states"


def test_a_lock_its_member_and_its_partition_light_up_together(opened: Open) -> None:
    page = opened_share_group(opened)
    page.wait_for_selector(".matrix-row")
    member, lock = f"member-{SHARE_GROUP}-ada", "operation-1-AcquisitionLock-0"
    page.keyboard.press("Escape")
    page.locator(".run .pick").first.focus()
    page.keyboard.press("Enter")
    assert page.url.endswith(f"#{lock}")
    assert {lock, member, "partition-orders-0", f"group-{SHARE_GROUP}"} <= lit(page)
    assert f"member-{SHARE_GROUP}-bob" not in lit(page)
    assert page.locator(".lock.lit").count() == 2, "both runs are of that lock"
    page.keyboard.press("Escape")
    page.locator(f"[id='{member}']").click()
    assert lock in lit(page)
    assert page.locator(".lock.lit").count() == 2
    page.keyboard.press("Escape")
    page.locator(".run.in-available").first.click()
    assert page.url.endswith("#partition-orders-0")


def test_with_reduced_motion_nothing_moves(opened: Open) -> None:
    page = opened(reduced_motion="reduce")
    running = "document.getAnimations().filter((each) => each.playState === 'running').length"
    assert page.evaluate(running) == 0


def test_a_cluster_that_comes_back_is_shown_without_a_reload(opened: Open, served: Served) -> None:
    page = opened()
    served.state = None
    page.wait_for_selector("#alarm:not([hidden])")
    assert "status 503" in page.locator("#status").inner_text()
    served.state = {**state(), "cluster_id": "another", "waits": []}
    page.wait_for_selector("#answers-empty:not([hidden])", timeout=5_000)
    assert page.locator("#alarm").is_hidden()
    assert "another" in page.locator("#cluster").inner_text()


def test_a_token_that_ran_out_is_told_and_what_was_seen_stays(opened: Open, served: Served) -> None:
    page = opened()
    served.refusal = 401
    page.wait_for_selector("#alarm:not([hidden])")
    assert "token of this page is not valid any more" in page.locator("#alarm").inner_text()
    assert page.locator(".broker").count() == 3
    served.refusal = 0
    page.wait_for_selector("#alarm", state="hidden", timeout=5_000)


def test_a_page_that_opens_while_no_broker_answers_says_so(opened: Open, served: Served) -> None:
    served.state = None
    page = opened()
    assert "The brokers do not answer" in page.locator("#alarm").inner_text()
    served.state = state()
    page.wait_for_selector(".broker", timeout=5_000)
    assert page.locator("#alarm").is_hidden()


@pytest.mark.parametrize("lacking", ["brokers", "partitions", "finished"])
def test_an_answer_of_another_version_is_told_and_the_page_goes_on(opened: Open, served: Served, lacking: str) -> None:
    page = opened()
    served.state = {name: value for name, value in state().items() if name != lacking}
    page.wait_for_selector("#alarm:not([hidden])")
    assert "different versions: reload" in page.locator("#alarm").inner_text()
    assert page.locator(".broker").count() == 3
    served.state = state()
    page.wait_for_selector("#alarm", state="hidden", timeout=5_000)


def test_what_a_newer_broker_tells_beyond_is_passed_over(opened: Open, served: Served) -> None:
    newer = state()
    newer["brokers"][0]["purgatories"].append({**newer["brokers"][0]["purgatories"][0], "name": "TimeTravel"})
    newer["waits"][0] |= {"kind": "NoTimeMachine", "flux": 1}
    served.state = {**newer, "futures": [{"kind": "unknown"}]}
    page = opened()
    page.wait_for_selector(".answer")
    assert "TimeTravel" in page.locator("#brokers").inner_text()
    assert page.locator("#alarm").is_hidden()


def test_the_page_shows_the_interval_that_the_brokers_ask_for(opened: Open, served: Served) -> None:
    served.next_ms = 900
    page = opened()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_000)
    assert 1 <= sum("/api/v1/state" in url for url in asked) <= 3


def test_the_page_asks_for_little(opened: Open) -> None:
    """Five states a second and a matrix in one to three seconds, whatever happens."""
    page = opened()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_000)
    assert 2 <= sum("/api/v1/state" in url for url in asked) <= 11
    assert sum("/api/v1/matrix" in url for url in asked) <= 2
    assert json.dumps(asked).count("/api/v1/connections") == 0


# --- time ---


def at(ms: int, **facts: Any) -> dict[str, Any]:
    """The state so long after the page was opened."""
    shown = state()
    return {**shown, "now_ms": shown["now_ms"] + ms, **facts}


def test_what_is_frozen_stays_while_the_cluster_runs_on(opened: Open, served: Served) -> None:
    page = opened()
    page.get_by_role("button", name="Freeze").click()
    served.state = at(5_000, waits=[])
    page.wait_for_function("document.getElementById('moment-says').textContent.includes('how it was 5.0 s ago')")
    assert page.locator(".answer").count() == 4
    assert not page.locator(".way").first.is_visible()  # it would act on what is now
    page.get_by_role("button", name="Go on").click()
    assert page.locator(".answer").count() == 0


def test_a_moment_of_the_last_ten_minutes_is_shown_again(opened: Open, served: Served) -> None:
    page = opened()
    served.state = at(20_000, waits=[])
    page.wait_for_selector("#answers-empty:not([hidden])")
    page.locator("#moment").fill("-20")
    assert page.locator(".answer").count() == 4
    assert page.locator("#moment-says").inner_text().startswith("This is how it was 20 s ago; the cluster runs on.")
    page.wait_for_function("document.getElementById('status').textContent === 'frozen'")
    page.locator("#moment").fill("0")
    assert page.locator(".answer").count() == 0


def test_moments_are_kept_for_ten_minutes(opened: Open, served: Served) -> None:
    page = opened()
    served.state = at(700_000, waits=[])
    page.wait_for_selector("#answers-empty:not([hidden])")
    page.locator("#moment").fill("-600")
    assert page.locator(".answer").count() == 0


def test_events_are_told_on_the_ribbon(opened: Open, served: Served) -> None:
    page = opened()
    held = at(1_000)
    held["brokers"][2] = {**held["brokers"][2], "follower": {"held": True, "delay_ms": 0}}
    served.state = held
    page.wait_for_function("document.getElementById('moment-says').textContent.includes('broker 3 are held')")
    served.state = at(2_000, faults=[{"id": 1, "text": "Produce: error X", "matched": 0, "fired": 0, "held": 0}])
    page.wait_for_function("document.getElementById('moment-says').textContent.includes('fault rule 1')")


def test_a_clock_that_a_test_has_moved_is_told(opened: Open, served: Served) -> None:
    page = opened()
    page.wait_for_timeout(300)
    assert page.locator("#ahead").is_hidden()
    ahead = state()
    served.state = {**ahead, "wall_ms": ahead["wall_ms"] + 90_500}
    page.wait_for_selector("#ahead:not([hidden])")
    assert page.locator("#ahead").inner_text() == "this cluster's time is 90 s ahead"
