"""Names for the completion in shells: none of them can be anything but one word there."""

from __future__ import annotations

import argparse
import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.cli.wire import completing

PLAIN = ["nightly", "a.b-c_d:e/f", "_own", ".hidden", "gruppe-ä", "user@host", "7"]
OTHERS = [
    "$(touch x)",
    "`touch x`",
    "a;b",
    "a b",
    "a\nb",
    "a'b",
    'a"b',
    "a\\b",
    "!!",
    "x!touch",
    "=ls",
    "~root",
    "{a,b}",
    "[ab]",
    "a#b",
    "--config",
    "-f",
    "\u202etxt",
    "",
]


def test_groups_that_are_no_plain_words_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(client: Any) -> tuple[list[dict[str, str]], int]:
        return [{"id": each} for each in (*PLAIN, *OTHERS)], 0

    monkeypatch.setattr(completing, "listed_groups", listed)
    client: Any = None
    assert asyncio.run(completing.groups(client, argparse.Namespace())) == PLAIN


def test_topics_of_a_cluster_that_gives_other_names_are_left_out() -> None:
    async def describe(names: None) -> Any:
        rows = [SimpleNamespace(name=each, is_internal=False) for each in (*PLAIN, *OTHERS)]
        return SimpleNamespace(topics=[*rows, SimpleNamespace(name="own", is_internal=True)])

    client: Any = SimpleNamespace(describe=describe)
    assert asyncio.run(completing.topics(client, argparse.Namespace())) == sorted(PLAIN)
