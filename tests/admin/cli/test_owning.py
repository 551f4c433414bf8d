"""A cluster that a program owns: the line of JSON, its end with its owner's, and what it begins with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.admin.operations.control.data_folder import MANIFEST

ENDS_WITHIN_S = 180
"""Far above the seconds that five starts in a row take: the machine may be busy."""

pytestmark = [pytest.mark.process, pytest.mark.timeout(ENDS_WITHIN_S)]

OWNED = ("cluster", "--port", "0", "--print-json", "--with-parent", "--log-level", "error")


class Owned:
    """A cluster that ends with its standard input."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "purgatorio", *OWNED, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.told: dict[str, Any] = json.loads(self.line) if self.line else {}

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.told['admin_url']}/api/v1/{path}"
        with urlopen(Request(url, data, {"Content-Type": "application/json"})) as answer:
            return json.load(answer)

    def values(self, topic: str) -> list[str]:
        return [each["value"] for each in self.ask(f"topics/{topic}/records")["records"]]

    def end(self) -> tuple[int, str, str]:
        """Close its standard input: the exit code, and what else it printed."""
        out, errors = self.process.communicate()
        return self.process.returncode, out, errors


@pytest.fixture
def own() -> Iterator[Callable[..., Owned]]:
    """Starts a cluster with these options more."""
    started: list[Owned] = []

    def start(*options: str) -> Owned:
        started.append(Owned(*options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def test_it_tells_where_it_is_and_ends_with_its_owner(own: Callable[..., Owned]) -> None:
    owned = own("--seed-topic", "orders:6", "--seed-topic", "bills")
    assert owned.told.keys() == {"bootstrap", "admin_url", "token", "pid", "version"}
    assert (owned.told["pid"], owned.told["token"]) == (owned.process.pid, None)
    assert len(owned.told["bootstrap"].split(",")) == 3
    rows = owned.ask("topics")["partitions"]
    assert [(row["topic"], row["partition"]) for row in rows] == [("bills", 0), *(("orders", n) for n in range(6))]
    assert owned.end() == (0, "", "")


def test_a_token_that_it_made_is_told_and_one_that_was_set_is_not(own: Callable[..., Owned]) -> None:
    made = own("--brokers", "1", "--host", "0.0.0.0")
    assert len(made.told["token"]) > 20
    owned = own("--brokers", "1", "--set", "admin.token=a-secret-of-16-chars")
    assert "a-secret" not in owned.line
    assert owned.told["token"] is None


def test_each_broker_as_a_process_is_owned_too(own: Callable[..., Owned]) -> None:
    owned = own("--processes", "--brokers", "2")
    assert len(owned.told["bootstrap"].split(",")) == 2
    assert owned.ask("brokers")["brokers"][1]["state"] == "running"
    assert owned.end()[0] == 0


def test_an_owner_that_is_gone_already_ends_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "purgatorio", *OWNED],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_imports_and_rules_are_there_again_after_a_reset(own: Callable[..., Owned], tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text('{"key": "1", "value": "paid"}\n{"key": "1", "value": "sent"}\n')
    rules = tmp_path / "rules.toml"
    rules.write_text('[[fault]]\napi = "Produce"\nerror = "NOT_LEADER_OR_FOLLOWER"\n')
    owned = own("--import", str(tmp_path), "--faults", str(rules))
    owned.ask("topics/orders/records", {"records": [{"value": "later"}]})
    owned.ask("topics", {"name": "later"})
    assert owned.ask("faults")["faults"]
    assert owned.ask("reset", {}) == {"state": "reset"}
    assert owned.values("orders") == ["paid", "sent"]
    assert {row["topic"] for row in owned.ask("topics")["partitions"]} == {"orders"}
    assert len(owned.ask("faults")["faults"]) == 1
    assert owned.end() == (0, "", "")


def test_data_is_kept_and_begun_with(own: Callable[..., Owned], tmp_path: Path) -> None:
    """What was imported is not imported again; a seed that is new is created."""
    (tmp_path / "import").mkdir()
    (tmp_path / "import" / "orders.jsonl").write_text('{"value": "imported"}\n')
    options = ("--brokers", "1", "--import", str(tmp_path / "import"), "--data", str(tmp_path / "data"))
    first = own(*options)
    first.ask("topics/orders/records", {"records": [{"value": "produced"}]})
    assert first.end() == (0, "", "")
    second = own(*options, "--seed-topic", "bills:2")
    assert second.values("orders") == ["imported", "produced"]
    assert second.values("bills") == []
    third = own("--data", str(tmp_path / "data"))
    assert third.end()[::2] == (2, f"purgatorio: {tmp_path / 'data'} is used by another process\n")
    second.ask("reset", {})
    assert second.values("orders") == ["imported", "produced"]
    assert second.end()[0] == 0


def test_a_tier_is_begun_with(own: Callable[..., Owned], tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    seeds, tier = tmp_path / "import", tmp_path / "tier"
    seeds.mkdir()
    topic = {"name": "orders", "partitions": 1, "configs": {"remote.storage.enable": "true"}}
    (seeds / "topics.jsonl").write_text(json.dumps(topic))
    (seeds / "orders.jsonl").write_text('{"value": "a"}\n{"value": "b"}\n')
    options = ("--brokers", "1", "--import", str(seeds), "--tier", str(tier))
    first = own(*options)
    assert first.values("orders") == ["a", "b"]
    assert first.end() == (0, "", "")
    second = own(*options)
    assert second.values("orders") == ["a", "b"]
    used = f"purgatorio: tier.location: {tier} is used by another process; name another one, or stop what uses it\n"
    assert own("--tier", str(tier)).end()[::2] == (2, used)
    assert second.end() == (0, "", "purgatorio: 1 topic came back from the tier: orders (2 records, whole)\n")
    both = own("--tier", str(tmp_path / "other"), "--data", str(tmp_path / "data")).end()
    assert both[::2] == (
        2,
        "purgatorio: --data and a tier do not go together: each keeps topics and offsets; leave one out\n",
    )


def test_data_that_cannot_be_begun_with_is_told(own: Callable[..., Owned], tmp_path: Path) -> None:
    assert own("--data", str(tmp_path), "--seed-topic", "orders").end()[0] == 0
    fewer = own("--data", str(tmp_path), "--brokers", "1")
    assert fewer.end()[::2] == (2, "purgatorio: the snapshot needs broker 2, which this cluster does not have\n")
    manifest = tmp_path / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 9}))
    code, _, errors = own("--data", str(tmp_path)).end()
    assert (code, errors.count("\n")) == (2, 1)
    assert "was written by a newer version of Purgatorio" in errors


def test_data_without_a_leader_is_not_kept(own: Callable[..., Owned], tmp_path: Path) -> None:
    owned = own("--data", str(tmp_path), "--brokers", "1", "--seed-topic", "orders")
    owned.ask("brokers/1/stop", {"force": True})
    code, _, errors = owned.end()
    assert (code, errors) == (
        1,
        "purgatorio: not all data was kept: no replica that lives and was in sync had orders-0\n",
    )
    assert not (tmp_path / MANIFEST).exists()


def test_a_partition_that_no_broker_has_any_more_loses_no_other_one(own: Callable[..., Owned], tmp_path: Path) -> None:
    """The folder is as it was, what is left is beside it, and the next cluster can begin with that."""
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    (seeds / "topics.jsonl").write_text('{"name": "single", "replicas": 1}\n{"name": "orders"}\n')
    data = tmp_path / "data"
    first = own("--import", str(seeds), "--data", str(data))
    assert first.end()[0] == 0
    second = own("--data", str(data))
    second.ask("topics/orders/records", {"records": [{"value": "acknowledged"}]})
    (single,) = (row for row in second.ask("topics")["partitions"] if row["topic"] == "single")
    second.ask(f"brokers/{single['leader']}/kill", {})
    code, _, errors = second.end()
    said, _, kept = errors.rstrip("\n").rpartition(" ")
    assert (code, said) == (
        1,
        "purgatorio: not all data was kept: no replica that lives and was in sync had single-0; "
        f"{data} is as it was, and the rest is in",
    )
    assert own("--data", kept).values("orders") == ["acknowledged"]
    assert own("--data", str(data)).values("orders") == []


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--seed-topic", "orders:x"], "--seed-topic orders:x: behind the colon is the number of partitions: orders:6"),
        (["--seed-topic", "a", "--seed-topic", "a:2"], "--seed-topic: the same topic is given twice"),
        (["--import", "/nowhere"], "/nowhere: no such file or directory"),
        (["--processes", "--data", "x"], "--data needs all brokers in one process: leave --processes out"),
        (["--processes", "--seed-topic", "x"], "--seed-topic needs all brokers in one process: leave --processes out"),
        (["--seed-topic", "a", "--brokers", "9", "--set", "min.insync.replicas=0"], ""),
    ],
)
def test_mistakes_are_one_line_and_exit_2(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cluster", "--port", "0", *argv]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"purgatorio: {line}")
    assert said.count("\n") == 1


def test_what_is_owned_is_not_on_several_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["serve", "--store", "etcd://127.0.0.1:1", "--print-json", "--set", "cluster_secret_file=x"]
    assert cli.main(argv) == 2
    assert capsys.readouterr().err == "purgatorio: --print-json is not for a cluster on several hosts\n"
