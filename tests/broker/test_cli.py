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

from broker import cli
from broker.config import as_toml, settings_of_process
from broker.config_sources import load_cluster_config

STARTS_WITHIN_S = 20
"""Far above the second it takes: the machine may be busy."""


def test_help_needs_nothing_but_argparse() -> None:
    """`--help` answers at once: neither pydantic nor the broker is loaded for it."""
    script = (
        "import sys, contextlib\n"
        "from broker import cli\n"
        "with contextlib.suppress(SystemExit): cli.main(['cluster', '--help'])\n"
        "print([name for name in ('pydantic', 'asyncio', 'structlog', 'broker.config') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "--follower-delay-ms" in done.stdout
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
        assert args.keys() - {"run", "config", "assignments"} <= settings_of_process().keys()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert re.fullmatch(r"purgatorio \d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["cluster", "--brokers", "none"], "purgatorio: --brokers must be a whole number, not 'none'\n"),
        (["serve", "--set", "log.retenton.ms=1"], "did you mean log.retention.ms?\n"),
        (["config", "--config", "/nowhere/x.toml"], "config file /nowhere/x.toml: no such file or directory\n"),
        (["cluster", "--port", "9644"], "purgatorio: admin_port is 9644, which is also the port of a broker\n"),
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
    for name in settings_of_process():
        assert re.search(rf"^# .+\n# {name} =", out, re.MULTILINE), name


ANY_PORTS = ("--port", "0", "--admin-port", "0")


@pytest.mark.timeout(STARTS_WITHIN_S)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
    assert errors == f"purgatorio: port {port} on 127.0.0.1 is in use; take others with {flag} (0: any free one)\n"


@pytest.mark.timeout(STARTS_WITHIN_S)
def test_an_address_of_another_machine_is_one_line_and_exit_1(start_purgatorio: Callable[..., Any]) -> None:
    code, errors = start_purgatorio("serve", "--host", "192.0.2.1", *ANY_PORTS, "--log-level", "error").end()
    assert code == 1
    assert re.fullmatch(r"purgatorio: cannot listen on 192\.0\.2\.1:0: .+\n", errors)
