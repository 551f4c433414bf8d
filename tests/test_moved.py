"""Old names of modules work for one release, and say the new ones."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from purgatorio.moved import MOVED, new_name

GOES = "the old name goes with 0.4.0"
CLOCK = "purgatorio.broker.time.clock"
"""A module of which one class went elsewhere than the others; it warns itself."""


@pytest.fixture
def fresh() -> Iterator[None]:
    """Modules are imported by their old names for the first time, and not by others later."""

    def forget() -> None:
        for name in [each for each in sys.modules if new_name(each) is not None or each == CLOCK]:
            del sys.modules[name]

    forget()
    yield
    forget()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_imports_the_module_and_warns_with_the_new_one(old: str, new: str) -> None:
    parts = old.split(".")
    parents = [".".join(parts[: count + 1]) for count in range(len(parts))]
    expected = [f"{each} is {new_name(each)} now; the old name goes with 0.4.0" for each in parents if new_name(each)]
    with pytest.warns(DeprecationWarning, match=GOES) as warned:
        module = importlib.import_module(old)
    assert [str(each.message) for each in warned] == expected
    assert module is importlib.import_module(new)
    assert module.__name__ == module.__spec__.name == new  # type: ignore[union-attr]


@pytest.mark.usefixtures("fresh")
def test_a_module_in_a_package_that_moved_is_not_loaded_twice() -> None:
    with pytest.warns(DeprecationWarning, match=GOES):
        from purgatorio.broker.purgatory.timer import Timer as Old  # type: ignore[import-not-found]
    from purgatorio.purgatory.timer import Timer

    assert Old is Timer


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("purgatorio.broker.purgatory", ("Purgatory", "PurgatoryGroup", "DelayedOperation", "WaitAborted")),
        (CLOCK, ("Clock", "ManualClock", "SystemClock", "Alarm", "time_limit")),
        ("purgatorio.broker.operations.control.snapshots", ("Snapshot",)),
        ("purgatorio.broker.operations.topics", ("ElectLeaders",)),
    ],
)
def test_the_public_names_of_the_last_release_are_where_they_were(module: str, names: tuple[str, ...]) -> None:
    with pytest.warns(DeprecationWarning, match=GOES):
        imported = importlib.import_module(module)
    assert [name for name in names if not hasattr(imported, name)] == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("old", "new"), [("purgatorio.broker.purgatory", "purgatorio.purgatory"), (CLOCK, "purgatorio.purgatory.clock")]
)
def test_the_warning_is_about_the_line_that_imports(old: str, new: str) -> None:
    script = f"\nimport {old}"
    done = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.startswith(f"<string>:2: DeprecationWarning: {old} is {new} now")


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'purgatorio\.broker\.purgatorium'"):
        importlib.import_module("purgatorio.broker.purgatorium")
