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
    assert ApiKey.ALTER_REPLICA_LOG_DIRS not in {api.key for api in APIS}


def test_its_messages_handler_and_registration_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made = modules(monkeypatch)
    assert list(made) == [
        "purgatorio.protocol.messages.alter_replica_log_dirs",
        "purgatorio.broker.api.alter_replica_log_dirs",
        "tests.broker.api.test_alter_replica_log_dirs",
    ]
    messages, handler, _ = made.values()
    registered: Any = handler.API
    assert registered.answered_versions == messages.API.versions
    moved = messages.AlterReplicaLogDirTopic(name="orders", partitions=[1])
    request = messages.AlterReplicaLogDirsRequest(dirs=[messages.AlterReplicaLogDir(path="/data", topics=[moved])])
    for version in registered.answered_versions:
        replies = Replies()
        handler.handle(None, context(ApiKey.ALTER_REPLICA_LOG_DIRS, version), request, replies)
        response, flexible = messages.AlterReplicaLogDirsResponse, messages.API.is_flexible(version)
        data = b"".join(compile_encoder(response, version, flexible)(replies.only))
        (result,) = compile_decoder(response, version, flexible)(data).results
        (partition,) = result.partitions
        assert (result.topic_name, partition.error_code) == ("orders", ErrorCode.LOG_DIR_NOT_FOUND)
