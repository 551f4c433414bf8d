"""The tests of docs/registry.md, with each schema registry that can be had, and with confluent-kafka's serializers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from purgatorio.registry import KINDS
from purgatorio.registry.installing import APICURIO
from purgatorio.registry.kinds import HOME_VARIABLE
from purgatorio.testing import cluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, run_install
from tests.java import newest_java

RUN_TIMEOUT_SECONDS = 400
pytestmark = [pytest.mark.heavy, pytest.mark.timeout(2 * INSTALL_TIMEOUT_SECONDS + RUN_TIMEOUT_SECONDS)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "registry.md").read_text()
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
NEEDED = "confluent-kafka[avro,json,protobuf,schemaregistry]>=2.16,<3"
JAVA_NEEDED = 21


@pytest.fixture(scope="module")
def serializers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with confluent-kafka and what its serializers need."""
    folder = tmp_path_factory.mktemp("serializers")
    run_install([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), NEEDED], folder)
    return folder


@pytest.fixture(scope="module", params=["karapace", "apicurio"])
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a test run that finds this registry alone."""
    home = tmp_path_factory.mktemp("registry")
    if request.param == "karapace":
        if not KINDS["karapace"].is_installed:
            pytest.skip("Karapace is not installed: purgatorio registry install")
        (home / "karapace").symlink_to(KINDS["karapace"].folder)
        return {HOME_VARIABLE: str(home)}
    java, version = newest_java()
    if version < JAVA_NEEDED:
        pytest.skip(f"Apicurio Registry needs Java {JAVA_NEEDED}, and there is {version}")
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed")
    own = {**os.environ, HOME_VARIABLE: str(home)}
    command = [sys.executable, "-m", "purgatorio", "registry", "install", "--kind", "apicurio", "--from", APICURIO]
    run_install(command, home, own)
    return {HOME_VARIABLE: str(home), "JAVA_HOME": java}


def test_the_tests_of_the_page_pass(environ: dict[str, str], serializers: Path, tmp_path: Path) -> None:
    """A cluster each; no client but the registry's is left connected at the end of a test, and that is not told of."""
    for name, program in PROGRAMS.items():
        (tmp_path / name).write_text(f"# {name}\n{program}")
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_leaks = error\nkafka_brokers = 1\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_purgatorio"],
        cwd=tmp_path,
        env={**os.environ, **environ, "PYTHONPATH": f"{serializers}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_TIMEOUT_SECONDS,
        check=False,
    )
    assert len(PROGRAMS) == 3
    assert "3 passed" in ran.stdout, ran.stdout


def ask(url: str, body: object = None, method: str | None = None) -> Any:
    """Ask a registry; with a body by POST, or the method that is given."""
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = Request(url, None if body is None else json.dumps(body).encode(), headers, method=method)
    with urlopen(request, timeout=RUN_TIMEOUT_SECONDS) as answer:
        return json.load(answer)


@pytest.mark.skipif(not KINDS["karapace"].is_installed, reason="Karapace is not installed: purgatorio registry install")
def test_karapace_finds_all_schemas_when_its_topic_was_compacted() -> None:
    """The topic keeps every version of a subject, and the last of its many settings; Karapace reads these anew."""
    fields: list[object] = []
    with cluster() as kafka:
        subject = f"{kafka.schema_registry.url}/subjects/orders-value/versions"
        config = f"{kafka.schema_registry.url}/config/orders-value"
        written = []
        for name in ("item", "price", "currency"):
            fields.append({"name": name, "type": "string", "default": ""})
            written.append(json.dumps({"type": "record", "name": "Order", "fields": fields}))
            ask(subject, {"schema": written[-1]})
            for level in ("FULL", "NONE", "BACKWARD"):
                ask(config, {"compatibility": level}, "PUT")
        before = kafka.records("_schemas")
        kafka.compact("_schemas")
        after = kafka.records("_schemas")
        assert (len(before), len(after)) == (12, 4)
        kafka.schema_registry.restart()
        assert ask(subject) == [1, 2, 3]
        assert [json.loads(ask(f"{subject}/{version}")["schema"]) for version in (1, 2, 3)] == [
            *map(json.loads, written)
        ]
        assert ask(config)["compatibilityLevel"] == "BACKWARD"
