"""scripts/run and scripts/test on machines of all kinds, with stand-ins for Python and its tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
NEEDED_TOOLS = ("bash", "cat", "cksum", "dirname", "env", "mkdir", "rm", "sh", "cp", "chmod", "grep")

# A Python that says whether it is new enough, makes environments of copies of itself, and notes every installation.
PYTHON = """#!/bin/sh
case "$1 $2" in
    "-c "*version_info*) exit {too_old} ;;
    "-c "*) exit 0 ;;
    "-m venv")
        mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
        for tool in purgatorio ruff mypy lint-imports coverage; do
            printf '#!/bin/sh\\necho "'$tool' $*"\\n[ "$FAIL" != '$tool' ]\\n' > "$3/bin/$tool"
            chmod +x "$3/bin/$tool"
        done
        echo "venv by $(basename "$0")" >> "$NOTES" ;;
    "-m pip") shift; echo "$*" >> "$NOTES"; [ "$FAIL" != pip ] ;;
    "scripts/new_operations.py ") ;;
    "-m pytest") shift; echo "$*"; [ "$FAIL" != pytest ] ;;
esac
"""


class Machine:
    """A repository and a PATH with nothing but a few tools and the Pythons that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.path = folder / "bin"
        self.notes = folder / "notes"
        (self.repository / "scripts").mkdir(parents=True)
        self.path.mkdir()
        for name in ("run", "test", "environment.sh"):
            shutil.copy(ROOT / "scripts" / name, self.repository / "scripts" / name)
        (self.repository / "pyproject.toml").write_text("[project]\n")
        for tool in (*NEEDED_TOOLS, "basename"):
            found = shutil.which(tool)
            assert found is not None, tool
            (self.path / tool).symlink_to(found)

    def put_python(self, name: str, *, too_old: bool = False) -> None:
        python = self.path / name
        python.write_text(PYTHON.replace("{too_old}", str(int(too_old))))
        python.chmod(0o755)

    def call(self, script: str, *args: str, fail: str = "") -> subprocess.CompletedProcess[str]:
        self.notes.write_text("")
        environ = {"PATH": str(self.path), "NOTES": str(self.notes), "FAIL": fail, "HOME": os.environ.get("HOME", "/")}
        command = [str(self.repository / "scripts" / script), *args]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_python_it_says_what_is_needed(machine: Machine) -> None:
    machine.put_python("python3", too_old=True)
    done = machine.call("run")
    assert done.returncode == 1
    assert done.stderr.startswith("Purgatorio needs Python 3.11 or newer")
    assert done.stderr.count("\n") == 1


def test_a_python_that_is_too_old_is_passed_over(machine: Machine) -> None:
    machine.put_python("python3", too_old=True)
    machine.put_python("python3.12")
    assert machine.call("run").returncode == 0
    assert machine.noted()[0] == "venv by python3.12"


def test_the_first_run_makes_the_environment_and_later_ones_use_it(machine: Machine) -> None:
    """A line tells what is going on the first time; afterwards there is nothing to wait for and nothing to say."""
    machine.put_python("python3")
    first = machine.call("run")
    assert first.stderr.startswith("Making the environment in .venv")
    assert machine.noted()[-1].endswith(f"--editable {machine.repository}")
    second = machine.call("run")
    assert (second.returncode, second.stdout, second.stderr) == (0, "purgatorio cluster\n", "")
    assert machine.noted() == []


def test_an_environment_for_the_tests_serves_run(machine: Machine) -> None:
    """What the tests need has all that the brokers need."""
    machine.put_python("python3")
    machine.call("test")
    assert machine.call("run").stderr == ""
    assert machine.noted() == []


def test_a_changed_pyproject_is_installed_anew(machine: Machine) -> None:
    machine.put_python("python3")
    machine.call("run")
    (machine.repository / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    machine.call("run")
    assert len(machine.noted()) == 1


def test_a_failed_installation_stops_and_is_tried_again(machine: Machine) -> None:
    machine.put_python("python3")
    done = machine.call("run", fail="pip")
    assert done.returncode != 0
    assert done.stdout == ""
    assert machine.call("run").returncode == 0
    assert len(machine.noted()) == 1


@pytest.mark.parametrize(
    ("given", "reaches"),
    [
        ((), "cluster"),
        (("groups", "list"), "groups list"),
        (("--follower-delay-ms", "300"), "cluster --follower-delay-ms 300"),
        (("serve", "--help"), "serve --help"),
        (("cluster", "--brokers", "1"), "cluster --brokers 1"),
        (("config",), "config"),
        (("broker", "list"), "broker list"),
        (("topics", "elect"), "topics elect"),
        (("simulate",), "simulate"),
        (("--version",), "--version"),
    ],
)
def test_run_reaches_the_whole_command(machine: Machine, given: tuple[str, ...], reaches: str) -> None:
    """Without a command it is the cluster."""
    machine.put_python("python3")
    assert machine.call("run", *given).stdout == f"purgatorio {reaches}\n"


def test_all_checks_run_and_pytest_comes_last(machine: Machine) -> None:
    machine.put_python("python3")
    done = machine.call("test", "-k", "purgatory")
    assert done.returncode == 0
    stages = [line for line in done.stdout.splitlines() if line.startswith("== ") and not line.endswith(" s")]
    assert stages == ["== lint", "== format", "== types", "== imports", "== operations", "== tests"]
    assert "mypy \n" in done.stdout
    assert "pytest -n auto --dist loadfile --part usual --seeds-a-day 2 -k purgatory\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("all passed in ")
    assert machine.noted()[-1].endswith(f"--editable {machine.repository}[dev]")


def test_the_quick_loop_checks_types_and_leaves_slow_tests_out(machine: Machine) -> None:
    machine.put_python("python3")
    done = machine.call("test", "--quick", "tests/x.py")
    assert done.returncode == 0
    assert "mypy \n" in done.stdout
    assert "pytest -n auto --dist worksteal --part quick tests/x.py\n" in done.stdout


def test_the_quick_loop_installs_less_and_nothing_where_all_is_installed(machine: Machine) -> None:
    machine.put_python("python3")
    done = machine.call("test", "--quick")
    assert machine.noted()[-1].endswith(f"--editable {machine.repository}[quick]")
    assert "what the quick check needs" in done.stderr
    machine.call("test")
    assert machine.noted()[-1].endswith(f"--editable {machine.repository}[dev]")
    (machine.repository / ".venv" / ".installed-for-quick").unlink()
    machine.call("test", "--quick")
    assert machine.noted() == []


@pytest.mark.parametrize(("tool", "stage"), [("mypy", "types"), ("pytest", "tests")])
def test_a_failed_check_fails_the_whole_and_hides_none_of_the_others(machine: Machine, tool: str, stage: str) -> None:
    machine.put_python("python3")
    done = machine.call("test", fail=tool)
    assert done.returncode == 1
    assert "pytest" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"failed: {stage} (after ")


def test_all_asks_for_the_heavy_tests_every_seed_and_the_fuzzer(machine: Machine) -> None:
    machine.put_python("python3")
    done = machine.call("test", "--all", "tests/x.py")
    assert "loadfile -m  --simulation-seeds 1-500 tests/x.py\n" in done.stdout
    assert any(line.endswith("[dev,fuzz]") for line in machine.noted())


def test_a_fuzzer_that_cannot_be_installed_stops_only_itself(machine: Machine) -> None:
    machine.put_python("python3")
    machine.call("test")
    done = machine.call("test", "--all", fail="pip")
    assert "Going on without the fuzzer." in done.stderr
    assert done.returncode == 0


def test_ci_runs_the_same_script() -> None:
    """CI can start it, and does nothing that a developer cannot: with the coverage, then with compiled modules."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line.startswith("./scripts/")]
    assert commands == ['./scripts/test --ci --coverage "$@"', "./scripts/compile", './scripts/test --quick "$@"']


def test_the_coverage_of_all_processes_is_reported_and_its_bar_is_a_check(machine: Machine) -> None:
    machine.put_python("python3")
    done = machine.call("test", "--ci", "--coverage", "tests/x.py", fail="pytest")
    said = [line for line in done.stdout.splitlines() if line.startswith("coverage ")]
    run = "coverage run -m pytest -n auto --dist loadfile --timeout 240 tests/x.py"
    assert said == ["coverage erase", run, "coverage combine --quiet", "coverage report"]
    assert machine.call("test", "--coverage", fail="coverage").returncode == 1
