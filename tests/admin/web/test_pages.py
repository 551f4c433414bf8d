"""The page itself is looked at in a browser; here, that it is whole, small, and puts no markup together."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from purgatorio.admin.web.pages import STATIC, page_files

MOST_LINES = 3_680
SCRIPTS = sorted(STATIC.glob("*.js"))
INDEX = (STATIC / "index.html").read_text()


async def test_the_page_is_served_and_asked_for_again_only_when_it_changed(client: httpx.AsyncClient) -> None:
    response = await client.get("/")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.text == INDEX
    again = await client.get("/", headers={"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_stays_small() -> None:
    """It is read and changed by hand, without a build step."""
    assert sum(len(file.content.splitlines()) for file in page_files().values()) <= MOST_LINES


async def test_every_file_of_the_page_is_served(client: httpx.AsyncClient) -> None:
    assert {path.name for path in STATIC.iterdir()} == set(page_files())
    for name in page_files():
        response = await client.get(f"/static/{name}")
        assert response.content == (STATIC / name).read_bytes()


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fapp.py", "%2e%2e/app.py", "%2Fetc%2Fpasswd", ""])
async def test_nothing_else_is_served(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"http://localhost/static/{name}")).status_code == 404


def test_everything_that_the_page_loads_is_there() -> None:
    wanted = set(re.findall(r'(?:src|href)="/static/([^"]+)"', INDEX))
    for script in SCRIPTS:
        wanted |= set(re.findall(r'from "\./([^"]+)"', script.read_text()))
    assert wanted | {"index.html"} == set(page_files())


def test_every_element_that_a_script_looks_for_is_there() -> None:
    ids = re.findall(r'id="([^"]+)"', INDEX)
    assert len(ids) == len(set(ids))
    for script in SCRIPTS:
        assert set(re.findall(r'getElementById\("([^"]+)"\)', script.read_text())) <= set(ids), script.name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_no_script_makes_markup_or_code_of_text(script: Path) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser"
    assert not re.search(forbidden, script.read_text())


def test_the_page_needs_nothing_from_elsewhere_and_nothing_that_the_policy_forbids() -> None:
    for file in page_files().values():
        text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text)
    assert not re.search(r'\son\w+=|\sstyle="|<style|<script(?![^>]*\ssrc=)', INDEX)
