"""The command line as a user meets it: help, mistakes, what is printed, and how it stops."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from purgatorio.admin.cli import main as cli
from purgatorio.admin.cli.owning_options import OWNING_OPTIONS
from purgatorio.broker.config.descriptions import as_toml, settings_of_process
from purgatorio.broker.config.sources import load_cluster_config
from tests.endpoints import neighbouring_ports

STARTS_WITHIN_S = 20
"""Far above the second it takes: the machine may be busy."""


@pytest.mark.process
def test_help_needs_nothing_but_argparse() -> None:
    """`--help` answers at once: neither pydantic nor the broker is loaded for it."""
    script = (
        "import sys, contextlib\n"
        "from purgatorio.admin.cli import main as cli\n"
        "with contextlib.suppress(SystemExit): cli.main(['cluster', '--help'])\n"
        "unwanted = ('pydantic', 'asyncio', 'structlog', 'purgatorio.broker.config')\n"
        "print([name for name in unwanted if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "--follower-delay-ms" in done.stdout
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.process
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("command", ["broker list", "topics elect", "groups describe"])
def test_help_of_the_commands_that_ask_a_cluster_needs_no_http(command: str) -> None:
    script = (
        "import sys, contextlib\n"
        "from purgatorio.admin.cli import main as cli\n"
        f"with contextlib.suppress(SystemExit): cli.main([*{command.split()}, '--help'])\n"
        "print([name for name in ('urllib.request', 'http', 'ssl', 'json', 'pydantic') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "--admin URL" in done.stdout
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize("command", ["cluster", "serve", "config"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([command, "--help"])
    assert left.value.code == 0
    assert "--config FILE" in capsys.readouterr().out


def test_flags_are_settings() -> None:
    """Each flag that is not about configuration itself has a setting's name, so that none is silently lost."""
    for command in ("cluster", "serve"):
        args = vars(cli.build_parser().parse_args([command]))
        about_the_process = {"run", "config", "assignments", "faults", "tls", "processes", "restart", *OWNING_OPTIONS}
        assert args.keys() - about_the_process <= settings_of_process().keys()


def test_a_broker_alone_has_one_rack(capsys: pytest.CaptureFixture[str]) -> None:
    for command, rack in (("serve", "--racks RACK"), ("cluster", "--racks A,B,C")):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        told = capsys.readouterr().out
        assert (rack in told, "in turn" in told) == (True, command == "cluster")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert re.fullmatch(r"purgatorio \d+\.\d+\.\d+(\.dev0)? \((compiled|interpreted)\)\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["cluster", "--brokers", "none"], "purgatorio: --brokers must be a whole number, not 'none'\n"),
        (["serve", "--set", "log.retenton.ms=1"], "did you mean log.retention.ms?\n"),
        (["config", "--config", "/nowhere/x.toml"], "config file /nowhere/x.toml: no such file or directory\n"),
        (["cluster", "--port", "9644"], "purgatorio: admin_port is 9644, which is also the port of a broker\n"),
        (["cluster", "--restart"], "purgatorio: --restart goes with --processes\n"),
        (["cluster", "--processes", "--tls"], "set listeners with certificates of your own\n"),
        (["cluster", "--processes", "--faults", "rules.toml"], "add them at each broker's page\n"),
        (["cluster", "--tier", "ftp://x"], "or memory: (a folder of that name is ./ftp:…)\n"),
        (["cluster", "--tier", "s3:///x"], "s3:///x names no bucket with a prefix; it is s3://BUCKET/PREFIX\n"),
        (["cluster", "--tier", "/dev/null/x"], "folder /dev/null/x cannot be written to: Not a directory\n"),
        (["cluster", "--processes", "--tier", "memory:"], "for the brokers of several: take a folder, or a bucket\n"),
        (["serve", "--store", "etcd://a", "--tier", "memory:"], "of several: take a folder, or a bucket\n"),
        (
            ["serve", "--store", "etcd://a", "--tier", "/dev/null/x"],
            "/dev/null/x cannot be written to: Not a directory\n",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_2(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    said = capsys.readouterr().err
    assert said.endswith(line)
    assert said.count("\n") == 1


def test_unknown_arguments_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """Abbreviated flags are unknown too: a later flag of a like name would change their meaning."""
    with pytest.raises(SystemExit) as left:
        cli.main(["cluster", "--broker", "3"])
    assert left.value.code == 2
    assert "--broker" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["clustr"], "purgatorio: there is no command 'clustr'; did you mean cluster?"),
        (["xyzzy"], "purgatorio: there is no command 'xyzzy'"),
        (["broker", "stpo", "2"], "purgatorio broker: there is no command 'stpo'; did you mean stop?"),
        (["topics", "elct"], "purgatorio topics: there is no command 'elct'; did you mean elect?"),
        (["topics", "rm", "a"], "purgatorio topics: there is no command 'rm'; did you mean delete?"),
        (["topics", "set", "a"], "purgatorio topics: there is no command 'set'; did you mean alter?"),
        (["topics", "get", "a"], "purgatorio topics: there is no command 'get'; did you mean describe?"),
        (["records", "write", "a"], "purgatorio records: there is no command 'write'; did you mean produce?"),
        (["records", "tail", "a"], "purgatorio records: there is no command 'tail'; did you mean consume?"),
        (["consume", "a"], "purgatorio: there is no command 'consume'; did you mean records consume?"),
        (["records", "produce"], "purgatorio records produce: the following arguments are required: TOPIC"),
        (["groups", "reset", "a"], "purgatorio groups: there is no command 'reset'; did you mean reset-offsets?"),
        (["config", "set", "x"], "purgatorio config: unknown: set x; did you mean purgatorio configs?"),
        (["configs", "alter", "a"], "purgatorio configs: there is no command 'alter'; did you mean set?"),
        (["broker", "hold", "3"], "purgatorio broker: there is no command 'hold'; did you mean hold-follower?"),
        (["cluster", "--prot", "1"], "purgatorio cluster: unknown: --prot 1; did you mean --port?"),
        (["cluster", "--prot=1"], "purgatorio cluster: unknown: --prot=1; did you mean --port?"),
        (["topics", "elect", "--uncleen"], "purgatorio topics elect: unknown: --uncleen; did you mean --unclean?"),
        (["broker", "list", "all"], "purgatorio broker list: unknown: all"),
        (["broker", "stop"], "purgatorio broker stop: the following arguments are required: N"),
        (["broker", "stop", "two"], "purgatorio broker stop: argument N: 'two' is not a number"),
    ],
)
def test_a_misspelt_command_or_flag_is_answered_with_a_similar_one(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(argv)
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[0] == line


def test_one_and_many_are_the_same_group(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["topic", "delete"], ["brokers", "stop"], ["group", "describe"]):
        with pytest.raises(SystemExit):
            cli.main([*words, "--help"])
        assert words[1] in capsys.readouterr().out


def test_a_list_may_go_on_after_a_flag() -> None:
    parse = cli.build_parser().parse_args
    assert parse(["topics", "delete", "a", "--bootstrap", "b", "c", "d"]).topics == ["a", "c", "d"]
    assert parse(["records", "produce", "a", "-k", "17", "x"]).values == ["x"]
    assert parse(["topics", "alter", "a", "--unset", "b", "c=d"]).set == [("c", "d")]


def test_where_the_admin_http_is_comes_from_the_flag_then_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no setting of a cluster, though its variable looks like one."""
    monkeypatch.setenv("PURGATORIO_ADMIN", "ftp://environment")
    assert cli.main(["broker", "list"]) == 2
    assert cli.main(["broker", "list", "--admin", "ftp://flag"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "purgatorio: 'ftp://environment' is not an address like http://127.0.0.1:9644",
        "purgatorio: 'ftp://flag' is not an address like http://127.0.0.1:9644",
    ]
    assert cli.main(["config"]) == 0


def test_that_no_cluster_runs_is_one_line_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert cli.main(["broker", "stop", "2", "--admin", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"purgatorio: no server listens at {url}")
    assert said.count("\n") == 1


def test_the_printed_configuration_reads_back(tmp_path: Path) -> None:
    """`purgatorio config > file` gives a file that means the same, defaults commented out."""
    config = load_cluster_config(
        flags={"brokers": "2", "follower_delay_ms": "300"},
        assignments=['rack=a "quoted" \\ rack', "log_cleaner_enable=false", "min_insync_replicas=2"],
    )
    file = tmp_path / "purgatorio.toml"
    file.write_text(as_toml(config))
    assert load_cluster_config(file=file) == config
    settings = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert sorted(line.split(" =")[0] for line in settings) == [
        "brokers",
        "follower_delay_ms",
        "log_cleaner_enable",
        "min_insync_replicas",
        "rack",
    ]


def test_every_setting_is_printed_with_its_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    out = capsys.readouterr().out
    for name in settings_of_process().keys() - {"without_effect"}:
        assert re.search(rf"^# .+\n# {name} =", out, re.MULTILINE), name


ANY_PORTS = ("--port", "0", "--admin-port", "0")


@pytest.mark.timeout(STARTS_WITHIN_S)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_cluster_prints_where_it_is_and_stops_on_a_signal(
    start_purgatorio: Callable[..., Any], number: signal.Signals
) -> None:
    """Addresses, page, metrics and the next commands on the standard output; exit code 0 and no leftovers."""
    purgatorio = start_purgatorio("cluster", *ANY_PORTS)
    said = purgatorio.greeting()
    ports = re.findall(r"broker \d +127\.0\.0\.1:(\d+)", said)
    assert len(ports) == 3
    assert re.search(r"page +http://\S+/\n", said)
    assert re.search(r"metrics +http://\S+/metrics\n", said)
    assert f"toy_producer.py --acks all --records 10 --bootstrap 127.0.0.1:{ports[0]}\n" in said
    for port in ports:
        socket.create_connection(("127.0.0.1", int(port))).close()
    purgatorio.process.send_signal(number)
    code, errors = purgatorio.end()
    assert code == 0, errors
    assert "Traceback" not in errors


class Operator:
    """Runs commands against one cluster."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys

    def __call__(self, *argv: str, code: int = 0) -> str:
        """What a command prints, on the standard error if it is to fail."""
        left = cli.main([*argv, "--admin", self._url])
        said = self._capsys.readouterr()
        assert left == code, said.err
        return said.err if code else said.out

    def table(self, *argv: str) -> list[list[str]]:
        """The rows of a table, without the head, as cells."""
        return [re.split(r"  +", line) for line in self(*argv).splitlines()[1:]]


@pytest.mark.timeout(STARTS_WITHIN_S)
def test_brokers_are_stopped_killed_started_and_listed(
    start_purgatorio: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    greeting = start_purgatorio("cluster", *ANY_PORTS).greeting()
    found = re.search(r"page +http://localhost(:\d+)/", greeting)
    assert found is not None
    operator = Operator(f"http://127.0.0.1{found[1]}", capsys)
    assert operator("broker", "stop", "2") == "broker 2 is stopped\n"
    assert operator("broker", "stop", "2", code=1) == "purgatorio: broker 2 is not running\n"
    assert operator("broker", "stop", "9", code=1) == "purgatorio: there is no such broker, only 1, 2, 3\n"
    assert [row[1] for row in operator.table("broker", "list")] == ["running", "stopped", "running"]
    assert operator("broker", "start", "2") == "broker 2 is running and catches up with the leaders\n"
    assert operator("broker", "kill", "1").startswith("broker 1 was killed")
    assert operator("broker", "restart", code=1).endswith("not all brokers are running: start 1 first\n")
    assert operator("broker", "start", "1") == "broker 1 is running and catches up with the leaders\n"
    assert "all brokers were restarted and are in sync" in operator("broker", "restart")
    assert operator("broker", "add", "--rack", "b").startswith("broker 4 is running")
    assert [row[4] for row in operator.table("broker", "list")] == ["held"] * 4


@pytest.mark.timeout(STARTS_WITHIN_S)
def test_partitions_are_listed_and_an_offline_one_is_elected_a_leader(
    start_purgatorio: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """One broker, so that stopping it loses the only copy: that takes --force, and an unclean election afterwards."""
    greeting = start_purgatorio("serve", *ANY_PORTS).greeting()
    port, admin = re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", greeting)[:2]
    operator = Operator(f"http://127.0.0.1:{admin}", capsys)
    assert operator.table("topics", "list") == []
    assert operator("topics", "list", "--topic", "orders", code=1) == "purgatorio: there is no topic orders\n"
    clients = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    clients.create_topics([NewTopic("orders", 1, 1)])
    clients.close()
    assert operator.table("topics", "list") == [["orders-0", "1", "0", "1", "1", "-"]]
    assert "last in-sync replica of orders-0" in operator("broker", "stop", "1", code=1)
    operator("broker", "stop", "1", "--force")
    operator("broker", "start", "1")
    assert "1 partition is offline" in operator("topics", "list")
    assert operator.table("topics", "list")[0] == ["orders-0", "offline", "1", "1", "-", "-"]
    assert operator("topics", "elect", "--unclean") == "orders-0: broker 1 is the leader in epoch 2\n"
    assert operator("topics", "elect", "--unclean") == "no partition needs an election\n"
    assert operator("topics", "elect", "--topic", "none", code=1) == "purgatorio: there is no topic none\n"


@pytest.mark.timeout(STARTS_WITHIN_S)
def test_one_broker_can_be_served_alone(start_purgatorio: Callable[..., Any]) -> None:
    said = start_purgatorio("serve", "--broker-id", "7", *ANY_PORTS).greeting()
    assert re.search(r"1 broker:\n  broker 7 ", said)


@pytest.mark.timeout(STARTS_WITHIN_S)
@pytest.mark.parametrize(("flag", "other"), [("--port", "--admin-port"), ("--admin-port", "--port")])
def test_a_port_in_use_is_one_line_and_exit_1(start_purgatorio: Callable[..., Any], flag: str, other: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = start_purgatorio("serve", flag, str(port), other, "0", "--log-level", "error").end()
    assert code == 1
    assert errors == f"purgatorio: port {port} on 127.0.0.1 is in use; choose another with {flag} (0: any free port)\n"


@pytest.mark.timeout(STARTS_WITHIN_S)
def test_an_admin_port_of_a_process_that_is_in_use_is_one_line_too(start_purgatorio: Callable[..., Any]) -> None:
    """The brokers started and stopped again, and the line named no flag."""
    port = neighbouring_ports()
    with socket.create_server(("127.0.0.1", port + 1)):
        words = ("cluster", "--processes", "--port", "0", "--admin-port", str(port), "--log-level", "error")
        code, errors = start_purgatorio(*words).end()
    assert code == 1
    said = f"port {port + 1} on 127.0.0.1 is in use; choose another with --admin-port (0: any free port)"
    assert errors == f"purgatorio: {said}\n"


@pytest.mark.timeout(STARTS_WITHIN_S)
def test_an_address_of_another_machine_is_one_line_and_exit_1(start_purgatorio: Callable[..., Any]) -> None:
    code, errors = start_purgatorio("serve", "--host", "192.0.2.1", *ANY_PORTS, "--log-level", "error").end()
    assert code == 1
    assert re.fullmatch(r"purgatorio: cannot listen on 192\.0\.2\.1:0: .+\n", errors)
