"""The lesson in a browser: the answer stands above the fold in each scene, on three screens; keyboard, themes, axe."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.admin.learn.playing import GROUP
from purgatorio.admin.learn.scene import Step, scenes
from tests.admin.learn.learning import learning
from tests.admin.web.served_page import BROWSER

playwright = pytest.importorskip("playwright.sync_api", reason="these tests need playwright")

pytestmark = [
    pytest.mark.process,
    pytest.mark.ci,
    pytest.mark.timeout(240),
    pytest.mark.skipif(BROWSER is None, reason="these tests need chromium"),
]

SCREENS = {"laptop": (1280, 720), "desktop": (1920, 1080), "phone": (390, 844)}
FOLD = 720
PATIENCE_MS = 60_000
NEGATIVE = re.compile(r"(?<![\w–-])[-−]\d[\d.]* ?(?:ms|s|min|h)\b")
IDLE = "() => ![...document.querySelectorAll('.lesson-buttons .way')].some((each) => !each.hidden && each.disabled)"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with learning() as running:
        yield f"{running}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser: Any, url: str) -> Iterator[Open]:
    """Open the page on a screen; a failure in it fails the test, and a scene that plays is ended."""
    contexts, failures = [], []

    def open_page(screen: str = "laptop", query: str = "", **options: Any) -> Any:
        width, height = SCREENS[screen]
        context = browser.new_context(viewport={"width": width, "height": height}, bypass_csp=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(url + query)
        page.wait_for_selector(".lesson option", state="attached")
        return page

    yield open_page
    for context in contexts:
        end = context.pages[0].get_by_role("button", name="End the scene")
        if end.is_visible():
            with contextlib.suppress(playwright.TimeoutError):  # its button goes when another page has ended the scene
                end.click(timeout=5_000)
            context.pages[0].wait_for_selector(".lesson:not(.playing)")
        context.close()
    assert failures == []


def start(page: Any, name: str) -> None:
    page.locator(".lesson select").select_option(name)
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_selector(".lesson.playing")
    page.wait_for_function(IDLE)


def answer_of(page: Any, step: Step) -> Any:
    """Return the sentence of the cause that a step is about."""
    if step.cause.startswith(GROUP):
        return page.locator(".lesson-why")
    kind, _, actor = step.cause.partition(" ")
    if kind == "NoRecordsYet" and not actor:
        return page.locator("#ordinary-list li", has_text="consumer fetch")
    return page.locator(f'.answer[id^="cause-{kind}-{actor}"] .says')


def box_of(shown: Any) -> dict[str, float]:
    """Return where an element is; the page may replace it just then, and has the new one at once."""
    boxes = (shown.bounding_box() for _ in range(20))
    return next(box for box in boxes if box is not None)


def width_of(page: Any) -> int:
    """Return how wide the page is, what lies beside the screen included."""
    return int(page.evaluate("document.documentElement.scrollWidth"))


def test_the_choice_of_scenes_is_not_wider_than_a_phone(opened: Open) -> None:
    assert width_of(opened("phone")) <= SCREENS["phone"][0]


@pytest.mark.parametrize("name", scenes())
def test_the_answer_stands_above_the_fold_in_each_scene(opened: Open, name: str) -> None:
    """On each screen its whole box lies within 720 px, and the page is not wider than the screen."""
    page = opened()
    for step in scenes()[name].steps:
        if step is scenes()[name].steps[0]:
            start(page, name)
        else:
            page.locator(".lesson-buttons").get_by_role("button", name=step.button, exact=True).click()
            page.get_by_text(step.says).wait_for()
            page.wait_for_function(IDLE)
        for width, height in SCREENS.values() if step.cause else ():
            page.set_viewport_size({"width": width, "height": height})
            box = box_of(answer_of(page, step).first)
            assert box["y"] + box["height"] <= FOLD
            assert width_of(page) <= width
        page.set_viewport_size({"width": 1280, "height": 720})
    assert page.locator(".lesson-keep").inner_text() == scenes()[name].keep


def test_no_time_on_the_page_is_wrong_after_the_clock_was_moved(opened: Open, url: str) -> None:
    """The sessions of members last, which send heartbeats; and no time of all is below zero."""
    page = opened()
    start(page, "rebalance")
    for seconds in (100, 1000):
        page.request.post(f"{url}api/v1/clock/advance", data={"seconds": float(seconds)})
        page.reload()
        page.locator(".member-session").first.wait_for()
        sessions = page.locator(".member-session").all_inner_texts()
        assert (len(sessions), [each for each in sessions if not re.fullmatch(r"(29|30) min \d+ s", each)]) == (2, [])
        assert NEGATIVE.findall(page.inner_text("body")) == []


def test_an_idle_page_gives_advice_that_fits_lessons(opened: Open) -> None:
    page = opened()
    page.locator("#answers-empty").get_by_text("In a scene, above, requests wait").wait_for()
    assert "toy_producer" not in page.inner_text("body")


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(opened: Open, screen: str, theme: str) -> None:
    """With a scene to choose, and with one that plays and whose text was copied."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="this test needs axe").Axe()
    page = opened(screen, color_scheme=theme, reduced_motion="reduce")
    for plays in (False, True):
        if plays:
            start(page, "acks-all")
            page.get_by_role("button", name="Copy this scene as a pytest").click()
            page.wait_for_selector(".lesson-text")
        violations = axe.run(page, context=".lesson").response["violations"]
        assert [(each["id"], each["nodes"][0]["failureSummary"]) for each in violations] == []


def test_the_keyboard_plays_a_scene(opened: Open) -> None:
    """Focus goes from the start to the next step, and from the last one to the end."""
    page = opened()
    page.locator(".lesson select").focus()
    page.keyboard.press("Tab")
    for button in ("Start", "Slow broker 3 down", "Make it fast again"):
        page.wait_for_function("(name) => document.activeElement.textContent === name", arg=button)
        page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.textContent === 'End the scene'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".lesson:not(.playing)")


def test_a_scene_is_copied_as_it_is_served(opened: Open) -> None:
    page = opened(query="?scene=quota", permissions=["clipboard-read", "clipboard-write"])
    assert page.locator(".lesson select").input_value() == "quota"
    page.get_by_role("button", name="Copy this scene as a pytest").click()
    page.get_by_text("Copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator(".lesson-text").input_value()
    assert "def test_quota(kafka):" in copied


def test_a_second_page_sees_the_scene_and_cannot_start_another(opened: Open, url: str) -> None:
    page, other = opened(), opened()
    start(page, "quota")
    other.wait_for_selector(".lesson.playing")
    assert other.locator(".lesson h2").inner_text() == "10 · A quota"
    refused = other.evaluate(
        """() => fetch("/api/v1/scenes/acks-all/start", { method: "POST", body: "{}",
             headers: { "Content-Type": "application/json" } }).then((answer) => answer.json())"""
    )
    assert refused["error"] == "scene quota is played: end it first"
