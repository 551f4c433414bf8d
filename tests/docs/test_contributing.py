"""The API that CONTRIBUTING adds as an example can be added as it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from purgatorio.broker.api.routes import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.decoder import compile_decoder
from purgatorio.protocol.encoder import compile_encoder
from tests.broker.api.harness import Replies, context

ROOT = Path(__file__).resolve().parents[2]


def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The program texts as modules under the names that their files would have, by these names."""
    made: dict[str, ModuleType] = {}
    programs = re.findall(r"```python\n# (\S+)\.py\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    for path, text in programs:
        name = path.replace("/", ".") if path.startswith("tests/") else "purgatorio." + path.replace("/", ".")
        module = made[name] = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            monkeypatch.setattr(sys.modules[parent], last, module, raising=False)
        exec(compile(text, f"CONTRIBUTING.md: {path}", "exec"), module.__dict__)
    return made


def test_the_example_is_not_there_yet() -> None:
    """An example that has been added for real is no longer one: take another API."""
    assert ApiKey.LIST_GROUPS not in {api.key for api in APIS}


def test_its_messages_handler_and_registration_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made = modules(monkeypatch)
    assert list(made) == [
        "purgatorio.protocol.messages.list_groups",
        "purgatorio.broker.api.list_groups",
        "tests.broker.api.test_list_groups",
    ]
    messages, handler, _ = made.values()
    registered: Any = handler.API
    assert registered.answered_versions == messages.API.versions
    for version in registered.answered_versions:
        replies = Replies()
        handler.handle(None, context(ApiKey.LIST_GROUPS, version), messages.ListGroupsRequest(), replies)
        flexible = messages.API.is_flexible(version)
        data = b"".join(compile_encoder(messages.ListGroupsResponse, version, flexible)(replies.only))
        assert compile_decoder(messages.ListGroupsResponse, version, flexible)(data).groups == []
