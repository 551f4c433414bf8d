"""Scripts of `purgatorio completion`, in the shells: commands, flags, and the topics and groups of a cluster."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from purgatorio.admin.cli import completion
from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka, cluster

PATIENCE_SECONDS = 30
Complete = Callable[[Path, dict[str, str], str], list[str]]
ASKS = """\
#!/bin/sh
PYTHONPATH={paths} exec {python} -c 'import sys
from purgatorio.admin.cli import completion, main
completion.PATIENCE_SECONDS = 20
sys.exit(main.main())' "$@"
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=1, topics={"orders": 1, "other": 1, "bills": 1}) as running:
        yield running


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, dict[str, str]]:
    """The script in a file, and an environment with the command."""
    assert cli.main(["completion", shell]) == 0
    file = folder / f"purgatorio.{shell}"
    file.write_text(capsys.readouterr().out)
    command = folder / "purgatorio"
    command.write_text(ASKS.format(paths=os.pathsep.join(sys.path), python=sys.executable))
    command.chmod(0o700)
    return file, {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "TERM": "dumb",
        "HOME": str(folder),
    }


def in_bash(file: Path, environment: dict[str, str], line: str) -> list[str]:
    # A colon is a word of its own, as bash has it.
    words = " ".join(f"'{word}'" for word in line.replace(":", " : ").split(" "))
    told = f"source {file}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _purgatorio; "
    return run(["bash", "--norc", "-c", f'{told}echo "${{COMPREPLY[*]}}"'], environment).split()


def in_fish(file: Path, environment: dict[str, str], line: str) -> list[str]:
    told = run(["fish", "--no-config", "-c", f"source {file}; complete -C '{line}'"], environment)
    return [each.split("\t")[0] for each in told.splitlines()]


def in_zsh(file: Path, environment: dict[str, str], keys: dict[str, str]) -> None:
    """Type lines, each with the tabulator at its end, and wait for what zsh makes of it."""
    terminal, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        os.write(terminal, f"PS1=; source {file}; print rea''dy\n".encode())
        read_until(terminal, b"ready\r\n")
        for line, expected in keys.items():
            os.write(terminal, f"{line}\t".encode())
            read_until(terminal, expected.encode())
            os.write(terminal, b"\x15")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def read_until(terminal: int, mark: bytes) -> bytes:
    found, deadline = b"", time.monotonic() + PATIENCE_SECONDS
    while mark not in found:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, found
        found += os.read(terminal, 65536)
    return found


def run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.stderr == ""
    return done.stdout


def needs(shell: str) -> pytest.MarkDecorator:
    """Skip a test without the shell."""
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"{shell} is not installed (Debian: apt-get install {shell})"
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("shell", "completed"),
    [pytest.param("bash", in_bash, marks=needs("bash")), pytest.param("fish", in_fish, marks=needs("fish"))],
)
def test_commands_flags_values_and_names_are_completed(
    shell: str, completed: Complete, tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: Kafka
) -> None:
    file, environment = script(shell, tmp_path, capsys)
    complete = partial(completed, file, environment | {"PURGATORIO_ADMIN": kafka.admin_url})
    assert sorted(complete("purgatorio topics de")) == ["delete", "describe"]
    assert complete("purgatorio records consume --isolation read_c") == ["read_committed"]
    assert complete("purgatorio topics delete --boo") == ["--bootstrap"]
    assert sorted(complete("purgatorio configs set ")) == ["broker", "group", "topic"]
    assert sorted(complete(f"purgatorio topics delete --bootstrap {kafka.bootstrap} o")) == ["orders", "other"]
    assert complete("purgatorio topics delete --bootstrap 127.0.0.1:1 o") == []
    assert sorted(complete("purgatorio topic de")) == ["delete", "describe"]
    assert sorted(complete("purgatorio groups reset-offsets g --to ")) == ["earliest", "latest"]
    assert complete(f"purgatorio why --admin {kafka.admin_url} or") == ["orders"]
    assert complete(f"purgatorio broker kill --admin {kafka.admin_url} ") == ["1"]
    assert sorted(complete("purgatorio configs describe topic o")) == ["orders", "other"]
    assert complete("purgatorio configs set topic orders retention.m") == ["retention.ms="]
    assert complete("purgatorio topics alter orders retention.m") == ["retention.ms="]
    assert complete("purgatorio topics alter orders --unset retention.m") == ["retention.ms"]
    if shell == "bash":  # fish does not know how many words the values of flags are
        assert complete("purgatorio topics describe orders o") == []
        assert complete("purgatorio topics describe --limit 3 or") == ["orders"]


@pytest.mark.process
@needs("zsh")
def test_zsh_completes_by_the_function_of_bash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: Kafka
) -> None:
    keys = {
        "purgatorio topics descr": "describe ",
        "purgatorio records consume --isolation read_c": "read_committed ",
        f"purgatorio topics delete --bootstrap {kafka.bootstrap} or": "orders ",
    }
    in_zsh(*script("zsh", tmp_path, capsys), keys)


def test_names_come_from_the_cluster_and_none_if_it_does_not_answer(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "PATIENCE_SECONDS", 20.0)
    kafka.produce("orders", "x")
    assert cli.main(["records", "consume", "orders", "--group", "g", "-q", "--bootstrap", kafka.bootstrap]) == 0
    capsys.readouterr()
    assert cli.main(["complete", "topics", "--bootstrap", kafka.bootstrap]) == 0
    assert capsys.readouterr().out.split() == ["bills", "orders", "other"]
    assert cli.main(["complete", "groups", "--admin", kafka.admin_url]) == 0
    assert capsys.readouterr().out.split() == ["g"]
    for where in (["--bootstrap", "localhost:1"], ["--command-config", "/nowhere"], ["--admin", "http://127.0.0.1:1"]):
        assert cli.main(["complete", "topics", *where]) == 0
        assert capsys.readouterr() == ("", "")


def test_the_table_has_all_commands() -> None:
    table = {each.words: each for each in completion.table_of(cli.build_parser())}
    assert {name for name, _ in table[""].subcommands} >= {"cluster", "topics", "records", "completion", "top"}
    assert table["topics delete"].places == [":topics"]
    assert table["groups describe"].places == [":groups"]
    assert table["configs set"].places == ["topic broker group", ":resources", ":settings"]
    assert table["broker kill"].places == [":brokers"]
    assert dict((flag, value) for flag, value, _ in table["records consume"].flags)["--group"] == ":groups"
    assert ("--command-config", ":files") in [(flag, value) for flag, value, _ in table["configs set"].flags]
    assert "complete" not in {name for name, _ in table[""].subcommands}


def test_another_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["completion", "csh"])
    assert left.value.code == 2
