"""The lesson's script and styles: small, without markup of texts, and served with the page of ``purgatorio learn``."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from purgatorio.admin.learn.lessons import STATIC, SceneLessons
from purgatorio.admin.web.app import create_app
from purgatorio.admin.web.pages import STATIC as PAGE
from tests.admin.learn.conftest import Taught

MOST_LINES = {"learn.js": 150, "learn.css": 30}


def served(taught: Taught, lessons: SceneLessons | None) -> httpx.AsyncClient:
    app: Any = create_app(taught.cluster, taught.operator.control, allowed_host="localhost", lessons=lessons)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:9644")


def test_it_stays_small() -> None:
    assert {path.name for path in STATIC.iterdir()} == set(MOST_LINES)
    for name, most in MOST_LINES.items():
        assert len((STATIC / name).read_text().splitlines()) <= most


def test_it_makes_no_markup_or_code_of_text() -> None:
    script = (STATIC / "learn.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script)
    assert set(re.findall(r'from "\./([^"]+)"', script)) == {"dom.js"}


@pytest.mark.slow
async def test_only_a_page_with_lessons_has_it(taught: Taught) -> None:
    async with served(taught, SceneLessons()) as learning, served(taught, None) as plain:
        assert '<script type="module" src="/static/learn.js">' in (await learning.get("/")).text
        assert (await learning.get("/static/learn.js")).content == (STATIC / "learn.js").read_bytes()
        assert (await learning.get("/static/main.js")).content == (PAGE / "main.js").read_bytes()
        assert (await plain.get("/")).content == (PAGE / "index.html").read_bytes()
        assert (await plain.get("/static/learn.js")).status_code == 404


@pytest.mark.slow
async def test_the_list_of_the_api_has_scenes_if_the_cluster_has(taught: Taught) -> None:
    async with served(taught, SceneLessons()) as learning, served(taught, None) as plain:
        paths = [each["path"] for each in (await learning.get("/api/v1")).json()["endpoints"]]
        assert "/api/v1/scenes/{name}/start" in paths
        assert "/api/v1/scenes" in (await learning.get("/api/v1/openapi.json")).json()["paths"]
        assert "scenes" not in (await plain.get("/api/v1")).text
        assert (await plain.get("/api/v1/scenes")).status_code == 404
