"""Whether a seed takes the same way in another process: two children run it side by side, step by step.

The children have one hash seed, since sets of text have another order under another one. All else differs as between
two days: addresses, for one, which decide the order of sets of objects.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO, Any, Final

from purgatorio.testing.simulate.errors import SimulationFailed
from purgatorio.testing.simulate.run import Options, Scenario, run_seed
from purgatorio.testing.simulate.steps import Steps

STEPS_BEFORE: Final = 5
"""The steps that both runs took, which a report shows."""
MAX_ERROR_LINES: Final = 20
END_SECONDS: Final = 10
"""How long a child has to end after the request to end."""
_END: Final = "the end: "


class NotDeterministic(SimulationFailed):
    """A seed takes another way in another process."""


class Twins:
    """Two processes that run the same seeds; `twins` makes them."""

    def __init__(self, name: str, children: list[Child]) -> None:
        self._name = name
        self._children = children

    def check(self, seed: int) -> int:
        """Run a seed in both; return the number of its steps.

        Raises:
            NotDeterministic: they differ.
            RuntimeError: a process has ended.
        """
        __tracebackhide__ = True
        for child in self._children:
            child.begin(seed)
        before: deque[str] = deque(maxlen=STEPS_BEFORE)
        for step in count(1):
            one, other = (child.step() for child in self._children)
            if one != other:
                raise NotDeterministic(seed, self._difference(seed, step, [*before], one, other))
            if one.startswith(_END):
                return step - 1
            before.append(one)
        raise AssertionError("count ends")

    def _difference(self, seed: int, step: int, before: list[str], one: str, other: str) -> str:
        lines = [
            f"seed {seed} of {self._name} takes another way in another process, from step {step} on",
            *(f"       both: {line}" for line in before),
            f"  in the one: {one}",
            f"  in the other: {other}",
            "The order of a set of objects, an address, the machine's time or entropy decided it.",
        ]
        return "\n".join(lines)


@contextmanager
def twins(scenario: Scenario, options: Options) -> Iterator[Twins]:
    """Start two processes that import a scenario, and end them.

    Raises:
        ValueError: they could not import it: it is made within a function, or takes fixtures.
    """
    name = scenario.__qualname__
    file = inspect.getsourcefile(scenario)
    if file is None or "<locals>" in name or len(inspect.signature(scenario).parameters) > 1:
        raise ValueError(f"check_determinism runs {name} in another process: define it in a module, without fixtures")
    job = (scenario.__module__, file, name, options)
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    with contextlib.ExitStack() as ending:
        yield Twins(name, [ending.enter_context(started(program, job)) for _ in range(2)])


class Child:
    """One of the two processes.

    Args:
        log: what it writes to its standard error.
    """

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        self._process = process
        self._log = log

    def begin(self, seed: int) -> None:
        """Have it run a seed."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `step` notices
            self._process.stdin.write(f"{seed}\n")
            self._process.stdin.flush()

    def step(self) -> str:
        """Return the next step.

        Raises:
            RuntimeError: the process has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)  # its last words come after the end of its output
            self._log.seek(0)
            told = "".join(self._log.readlines()[-MAX_ERROR_LINES:])
            raise RuntimeError(f"the other process that should run the seed has ended:\n{told}")
        return line.rstrip("\n")

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate(timeout=END_SECONDS)


@contextmanager
def started(program: str, job: tuple[Any, ...]) -> Iterator[Child]:
    """Start a process that runs a program and reads its job from the standard input; end it at last."""
    environment = {**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
    if environment["PYTHONHASHSEED"] == "random":
        environment["PYTHONHASHSEED"] = "0"
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
        child = Child(process, log)
        try:
            assert process.stdin is not None
            process.stdin.write(base64.b64encode(pickle.dumps(job)).decode() + "\n")
            yield child
        finally:
            child.end()


# --- in the child ---


def main() -> None:
    """Run each seed that a line of the standard input names, and write its steps to the standard output."""
    module, file, name, options = pickle.loads(base64.b64decode(sys.stdin.readline()))
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what the scenario prints is no step

        def tell(step: str) -> None:
            out.write(f"{step}\n")

        scenario = _imported(module, file)
        for part in name.split("."):
            scenario = getattr(scenario, part)
        scenario = getattr(scenario, "scenario", scenario)
        for line in sys.stdin:
            run = run_seed(scenario, options, int(line), steps=Steps(tell))
            out.write(f"{_END}{'passed' if run.passed else 'failed'}, {run.journal.digest()}\n")
            out.flush()


def _imported(module: str, file: str) -> Any:
    """Import a module by its name, or from its file: pytest imports tests whose folder is not on the path."""
    if module != "__main__":
        with contextlib.suppress(ImportError):
            return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location("scenario_of_simulation", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made
