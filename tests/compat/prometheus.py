"""A Prometheus of the machine, with the alerts of deploy/ and a page of the documentation as its settings."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tests.compat.hosts import until
from tests.endpoints import free_port

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


class Prometheus:
    """A running one."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"{self._url}/-/ready").close()
        except OSError:
            return False
        return True

    def values(self, query: str, label: str = "broker_id") -> dict[str, float]:
        """Return the value of each series now, by a label."""
        found = self._get(f"/api/v1/query?query={quote(query)}")["result"]
        return {each["metric"].get(label, ""): float(each["value"][1]) for each in found}

    def firing(self) -> set[str]:
        """Return the alerts that fire, each with the broker that it names, if it names one."""
        return {
            " ".join(filter(None, (each["labels"]["alertname"], each["labels"].get("broker_id"))))
            for each in self._get("/api/v1/alerts")["alerts"]
            if each["state"] == "firing"
        }


def settings_of(page: str, replaced: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of Prometheus in a page of docs/, with other addresses for those that the page has."""
    (text,) = re.findall(r"```yaml\n(scrape_configs:\n.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    for each, other in replaced.items():
        assert each in text
        text = text.replace(each, other)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@contextmanager
def watching(path: Path, settings: dict[str, Any]) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes each second; alerts fire after a second instead of minutes."""
    (path / "alerts.yml").write_text(re.sub(r"for: \w+", "for: 1s", ALERTS.read_text()))
    often = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "200ms"}
    for job in settings["scrape_configs"]:
        for found in job.get("http_sd_configs", ()):
            found["refresh_interval"] = "500ms"
    file = path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"global": often, "rule_files": ["alerts.yml"], **settings}))
    listening = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={path / 'data'}"]
    command += [f"--web.listen-address={listening}", "--log.level=error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            prometheus = Prometheus(f"http://{listening}")
            until(prometheus.is_ready)
            yield prometheus
        finally:
            process.kill()
