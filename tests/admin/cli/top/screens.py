"""A cluster that `purgatorio top` shows: answers as the admin HTTP makes them, from a state that stands still."""

from __future__ import annotations

from typing import Any

from purgatorio.admin.cli.admin_client import AdminError
from purgatorio.admin.cli.top.app import Top
from tests.admin.web.served_page import matrix, state

EVIL = "[red]evil[/red] \x1b[31m"


class FakeCluster:
    """Answers by path; remembers what was asked and changed."""

    url = "http://localhost:9644"

    def __init__(self) -> None:
        whole = {**state(), "cluster_id": "tests"}
        self.answers: dict[str, Any] = {
            "state": whole,
            "matrix": matrix(),
            "groups": {"groups": whole["groups"]},
            "transactions": {"transactions": whole["transactions"]},
            "share-groups": {"share_groups": [{"id": "workers", "in_flight": 3, "acquired": 2, "done": 9}]},
            "faults": {"faults": [{"id": 7, "text": "api=Fetch hold", "matched": 4, "fired": 4, "held": 1}]},
        }
        self.asked: list[str] = []
        self.posted: list[tuple[str, Any]] = []
        self.trouble = ""

    def get(self, path: str, *, shared: bool = False) -> dict[str, Any]:
        assert shared
        self.asked.append(path)
        if self.trouble:
            raise AdminError(self.trouble)
        found: dict[str, Any] = self.answers[path.partition("?")[0]]
        return found

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if self.trouble:
            raise AdminError(self.trouble)
        self.posted.append((path, body))
        return {}


def text_of(app: Top) -> str:
    """What the screen shows, line by line."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines[:height]) if width else ""
