"""docker-compose.yml without a container engine: its paths, its images, its dashboard, and its very command line."""

from __future__ import annotations

import json
import re
import shlex
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from purgatorio.admin.cli import main as cli
from purgatorio.admin.metrics.prometheus import BrokerCollector
from purgatorio.broker.config import ClusterConfig

ROOT = Path(__file__).resolve().parent.parent
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "purgatorio.json"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def mounts(compose: dict[str, Any]) -> dict[str, Path]:
    """Each path inside a container that comes from this repository, with its service before it."""
    found = {}
    for name, service in compose["services"].items():
        for volume in service.get("volumes", ()):
            source, target, mode = volume.split(":")
            assert mode == "ro", volume
            found[f"{name}:{target}"] = ROOT / source
    return found


def in_repository(compose: dict[str, Any], service: str, path: str) -> Path:
    """The file of this repository that a container sees under `path`."""
    for target, source in mounts(compose).items():
        inside = target.removeprefix(f"{service}:")
        if target.startswith(f"{service}:") and (path == inside or path.startswith(f"{inside}/")):
            return source / path.removeprefix(inside).lstrip("/")
    raise AssertionError(f"{service} mounts nothing at {path}")


def test_every_mounted_path_exists(compose: dict[str, Any]) -> None:
    assert len(mounts(compose)) == 3
    for target, source in mounts(compose).items():
        assert source.exists(), target


def test_images_are_built_here_or_pinned_by_a_version(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if name == "purgatorio":
            assert service["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"}
        else:
            assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"]), name


def test_nothing_is_published_beyond_the_loopback(compose: dict[str, Any]) -> None:
    """Neither the brokers nor the dashboard ask who you are."""
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_published_ports_are_those_listened_on(compose: dict[str, Any]) -> None:
    config = ClusterConfig()
    first, last = config.port, config.port + config.brokers - 1
    assert compose["services"]["purgatorio"]["ports"] == [
        f"127.0.0.1:{first}-{last}:{first}-{last}",
        f"127.0.0.1:{config.admin_port}:{config.admin_port}",
    ]
    assert f"EXPOSE {first}-{last} {config.admin_port}\n" in (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_image_is_built_from_what_is_there() -> None:
    """What the Dockerfile copies exists, is let through by its .dockerignore, and has all that the build asks for."""
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    packages = {
        "admin",
        "broker",
        "pipeline",
        "plugins",
        "protocol",
        "purgatorio",
        "purgatory",
        "simulation",
        "testing",
    }
    others = {"pyproject.toml", "README.md", "LICENSE", "scripts/compiling.py", "scripts/image-build"}
    assert {*others, *packages} == set(sources)
    let_through = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in let_through


def test_prometheus_scrapes_the_brokers(compose: dict[str, Any]) -> None:
    path = in_repository(compose, "prometheus", "/etc/prometheus/prometheus.yml")
    (job,) = yaml.safe_load(path.read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"purgatorio:{ClusterConfig().admin_port}"]}]
    assert "metrics_path" not in job


def test_grafana_finds_its_datasource_and_dashboard(compose: dict[str, Any]) -> None:
    """The provisioned dashboard folder is mounted, holds the home dashboard, and the datasource is the one it names."""
    provisioning = in_repository(compose, "grafana", "/etc/grafana/provisioning")
    (datasource,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "purgatorio.yml").read_text())["providers"]
    assert datasource["url"] == "http://prometheus:9090"
    assert in_repository(compose, "grafana", provider["options"]["path"]) == DASHBOARD.parent
    home = compose["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert in_repository(compose, "grafana", home) == DASHBOARD
    used = {panel["datasource"]["uid"] for panel in panels() if "datasource" in panel}
    assert used == {datasource["uid"]}


def panels() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return loaded


def exported_names() -> Iterator[str]:
    """Every series name of the brokers, whether or not there is a sample for it yet, and some of the process."""
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    for family in BrokerCollector(lambda: ()).collect():
        yield from (family.name + suffix for suffix in suffixes[family.type])
    yield from ("process_resident_memory_bytes", "process_cpu_seconds_total")


def queried_names(expression: str) -> set[str]:
    """The metric names in a PromQL expression: words that are no function, keyword, label or string."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", expression)
    bare = re.sub(r"\b(by|on|without)\s*\([^)]*\)", " ", bare)
    return set(re.findall(r"\b[a-z_][a-z0-9_]*\b(?!\s*\()", bare)) - {"and"}


def test_the_dashboard_queries_only_what_is_exported() -> None:
    known = set(exported_names())
    targets = [target for panel in panels() for target in panel.get("targets", ())]
    assert targets
    for target in targets:
        names = queried_names(target["expr"])
        assert names, target["expr"]
        assert names <= known, target["expr"]


def alerts() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_alerts_are_about_what_is_exported_and_name_commands_that_there_are(compose: dict[str, Any]) -> None:
    settings = in_repository(compose, "prometheus", "/etc/prometheus/prometheus.yml")
    assert [settings.parent / name for name in yaml.safe_load(settings.read_text())["rule_files"]] == [ALERTS]
    known = {*exported_names(), "up"}
    assert alerts()
    for rule in alerts():
        names = queried_names(re.sub(r"[<>=!]=?\s*\d+", " ", rule["expr"]))
        assert names, rule["alert"]
        assert names <= known, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        for command in re.findall(r"`purgatorio ([a-z ]+)`", rule["annotations"]["description"]):
            with pytest.raises(SystemExit) as left:
                cli.main([*command.split(), "--help"])
            assert left.value.code == 0, command


def test_the_dashboard_lists_the_brokers_by_a_metric_that_is_exported() -> None:
    (variable,) = json.loads(DASHBOARD.read_text())["templating"]["list"]
    found = re.fullmatch(r"label_values\((\w+), broker\)", variable["query"]["query"])
    assert found is not None
    assert found[1] in set(exported_names())


def test_panels_do_not_overlap() -> None:
    """The grid is 24 wide; each cell belongs to one panel at most."""
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        grid = panel["gridPos"]
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.timeout(20)
def test_the_very_command_line_of_the_service_runs(
    compose: dict[str, Any], start_purgatorio: Callable[..., Any]
) -> None:
    """Outside a container, on other ports: clients are told the loopback, and the health check and a scrape answer."""
    service = compose["services"]["purgatorio"]
    program, *argv = shlex.split(service["command"])
    assert program == "purgatorio"
    said = start_purgatorio(*argv, "--port", "0", "--admin-port", "0").greeting()
    assert len(re.findall(r"broker \d +127\.0\.0\.1:\d+\n", said)) == 3
    admin = re.search(r"metrics +http://[^/]+:(\d+)/metrics\n", said)
    assert admin is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{admin[1]}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert 'kafka_server_delayedoperationpurgatory_numdelayedoperations{broker="3",delayedOperation="Produce"}' in text
    url = re.search(r"http://[^']+", service["healthcheck"]["test"][-1])
    assert url is not None
    with urllib.request.urlopen(url[0].replace("9644", admin[1]), timeout=10) as answer:
        assert answer.status == 200


# --- deploy/docker-compose.hosts.yml ---


@pytest.fixture(scope="module")
def on_hosts() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "deploy/docker-compose.hosts.yml").read_text())
    return loaded


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_broker_of_the_hosts_is_told_its_own_addresses(on_hosts: dict[str, Any], number: int) -> None:
    service = on_hosts["services"][f"broker{number}"]
    words = shlex.split(service["command"])
    assert words[0] == "purgatorio"
    args = cli.build_parser().parse_args(words[1:])
    config = cli._load_config(args)
    assert config is not None
    assert (config.broker.broker_id, config.store) == (number, "etcd://etcd")
    assert config.cluster_secret_file == "/run/secrets/cluster.secret"
    assert config.advertised_host == f"broker{number}"
    port = 9091 + number
    assert config.broker.advertised_listeners == f"PLAINTEXT://broker{number}:29092,OUTSIDE://127.0.0.1:{port}"
    assert f"127.0.0.1:{port}:{port}" in service["ports"]
    assert service["secrets"] == list(on_hosts["secrets"]) == ["cluster.secret"]


def test_of_the_hosts_too_nothing_is_published_beyond_the_loopback(on_hosts: dict[str, Any]) -> None:
    for service in on_hosts["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_etcd_of_the_hosts_listens_where_the_brokers_look(on_hosts: dict[str, Any]) -> None:
    folder = ROOT / "deploy" / on_hosts["services"]["etcd"]["build"]
    assert '"--listen-client-urls", "http://0.0.0.0:2379"' in (folder / "Dockerfile").read_text()
