"""The API that CONTRIBUTING adds as an example can be added as it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api.routes import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.decoder import compile_decoder
from purgatorio.protocol.encoder import compile_encoder
from purgatorio.protocol.errors import ErrorCode
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
    assert ApiKey.UNREGISTER_BROKER not in {api.key for api in APIS}


def test_its_messages_handler_and_registration_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made = modules(monkeypatch)
    assert list(made) == [
        "purgatorio.protocol.messages.unregister_broker",
        "purgatorio.broker.api.unregister_broker",
        "tests.broker.api.test_unregister_broker",
    ]
    messages, handler, _ = made.values()
    registered: Any = handler.API
    assert registered.answered_versions == messages.API.versions
    admin: Any = SimpleNamespace(store=SimpleNamespace(image=SimpleNamespace(brokers={1: None})))
    for version in registered.answered_versions:
        for broker_id, error_code in ((1, ErrorCode.POLICY_VIOLATION), (2, ErrorCode.BROKER_ID_NOT_REGISTERED)):
            replies = Replies()
            request = messages.UnregisterBrokerRequest(broker_id=broker_id)
            handler.handle(admin, context(ApiKey.UNREGISTER_BROKER, version), request, replies)
            response, flexible = messages.UnregisterBrokerResponse, messages.API.is_flexible(version)
            data = b"".join(compile_encoder(response, version, flexible)(replies.only))
            answer = compile_decoder(response, version, flexible)(data)
            assert answer.error_code == error_code
            assert f"roker {broker_id}" in answer.error_message
