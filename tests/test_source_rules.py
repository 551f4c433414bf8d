"""Rules that the source keeps: one source of time, short files, short functions, docstrings that say something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    str(path.relative_to(ROOT)): path
    for folder in ("purgatory", "broker", "admin", "simulation", "purgatorio/client")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
MAX_FILE_LINES = 900
MAX_FUNCTION_LINES = 70

# --- one source of time: see purgatory/clock.py ---

TIME_SOURCES = {
    "purgatory/clock.py": "it is the clock",
    "broker/time/system_clock.py": "it is the machine's clock",
    "broker/time/movable_clock.py": "it is a clock, too",
    "admin/cli/broker_commands.py": "a one-shot command tells the seconds that it took; no clock reaches its process. "
    "A time of the brokers is printed as a date",
    "admin/cli/reset_command.py": "a time that the user typed becomes milliseconds; it reads no clock",
    "broker/causes/cause.py": "the timestamp of a look-up is said as a date; it reads no clock",
    "broker/tier/obstore_store.py": "the end of the process waits for threads of obstore; no clock is left",
    "purgatory/purgatories.py": "the default of a library that stands alone; brokers pass their clock",
    "purgatory/reaper.py": "the default of a library that stands alone; brokers pass their clock",
}
"""The files that may read time or wait for it otherwise than by `Clock`, and why."""
SIMULATION = "simulation/"
"""The simulated world makes time: faults, network and checks go by its loop; its brokers go by a `Clock` over that."""

WAITING_FOR_TIME = {"wait_for", "timeout_at", "call_later", "call_at"}
"""Names that wait for the event loop's time, in whatever module or object they are looked up."""
TIME_MODULES = {"time", "datetime"}
CALLS = {*WAITING_FOR_TIME, "sleep", "time", "timeout", "wait"}
"""The names that `reads_time` looks at more closely, which takes long."""


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text())


def reads_time(node: ast.AST) -> str | None:
    """What a node does with time that is not a `Clock`'s; None if nothing."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        return next((f"imports {name}" for name in names if name in TIME_MODULES), None)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
        return None
    owner, name = ast.unparse(node.func.value), node.func.attr
    call = f"calls {ast.unparse(node.func)}"
    if owner == "asyncio":
        return call if _waits_by_asyncio(name, node) else None
    if name == "time" and "loop" in owner:
        return call
    return call if name in WAITING_FOR_TIME and "clock" not in owner and "timer" not in owner else None


def _waits_by_asyncio(name: str, call: ast.Call) -> bool:
    first = ast.unparse(call.args[0]) if call.args else ""
    match name:
        case "sleep":
            return first != "0"  # a turn of the loop is no time
        case "timeout":
            return first != "None"
        case "wait":
            return any(keyword.arg == "timeout" for keyword in call.keywords)
        case _:
            return name in WAITING_FOR_TIME


def readings(module: ast.AST) -> list[str]:
    return [f"line {node.lineno}: {found}" for node in ast.walk(module) if (found := reads_time(node))]  # type: ignore[attr-defined]


def test_only_the_clock_reads_time_and_waits_for_it() -> None:
    by_file = {name: readings(tree(name)) for name in SOURCES if not name.startswith(SIMULATION)}
    assert {name: found for name, found in by_file.items() if found and name not in TIME_SOURCES} == {}
    assert [name for name in TIME_SOURCES if not by_file[name]] == [], "they need no place in TIME_SOURCES any more"


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(1)",
        "await asyncio.sleep(delay_ms / 1000)",
        "asyncio.timeout(5)",
        "asyncio.timeout_at(when)",
        "asyncio.wait_for(task, 5)",
        "asyncio.wait(tasks, timeout=5)",
        "loop.time()",
        "asyncio.get_running_loop().time()",
        "self._loop.time()",
        "loop.call_later(1, f)",
        "asyncio.get_running_loop().call_at(1, f)",
        "import time",
        "from time import monotonic",
        "from datetime import datetime",
    ],
)
def test_each_way_around_the_clock_is_seen(code: str) -> None:
    assert len(readings(ast.parse(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(0)",
        "asyncio.timeout(None)",
        "asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)",
        "await clock.sleep(5)",
        "self._clock.call_later(5, f)",
        "self.timer.call_later(5, f)",
        "loop.call_soon(f)",
        "event.wait()",
    ],
)
def test_the_clock_and_turns_of_the_loop_are_allowed(code: str) -> None:
    assert readings(ast.parse(code)) == []


# --- sizes ---


def test_files_are_short() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in SOURCES.items()}
    assert {name: count for name, count in lines.items() if count >= MAX_FILE_LINES} == {}


def functions(module: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and number of lines of each function, from its ``def`` on."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_are_short() -> None:
    lengths = {f"{file}: {name}": lines for file in SOURCES for name, lines in functions(tree(file))}
    assert {name: lines for name, lines in lengths.items() if lines >= MAX_FUNCTION_LINES} == {}


# --- docstrings: a method says what it does where it is declared; an override says it again only if it does more ---

DESCRIBED = {
    str(path.relative_to(ROOT)): path.read_text()
    for folder in ("purgatory", "protocol", "broker", "admin", "pipeline", "simulation", "testing", "purgatorio/client")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def says_nothing(source: str) -> list[str]:
    """The functions whose docstring begins with See or is "Ignored."."""
    if not re.search(r'"""(See |Ignored)', source):
        return []
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    return [node.name for node in nodes if re.match(r"See `?[\w.]+`?|Ignored\.", ast.get_docstring(node) or "")]


TEXTS = re.compile(r'^ *"""(.*?)"""', re.DOTALL | re.MULTILINE)
UNPLAIN = re.compile(r"(?:^|[.:;]\s+|\n\s*)What\b|\b[Tt](?:old|ells?)\b(?!:)")
"""What as a subject, and what is told: name the actor, and say that it returns, reports, notifies or learns."""


def unplain(source: str) -> list[str]:
    """The docstrings, of attributes too, with a sentence that begins with What, or in which something is told."""
    return [
        f"line {source.count(chr(10), 0, text.start()) + 1}: {match[0].strip(' .:;')}"
        for text in TEXTS.finditer(source)
        for match in UNPLAIN.finditer(text[1])
    ]


def classes(module: ast.Module) -> Iterator[tuple[str, list[str], list[Function]]]:
    """Name, bases and methods of each class at the top."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
            yield node.name, bases, [each for each in node.body if isinstance(each, Function)]


def undescribed(sources: dict[str, str]) -> list[str]:
    """The public methods without a docstring whose name has one in no base class and in no protocol.

    A base class from elsewhere is taken to describe its methods.
    """
    found = {file: list(classes(ast.parse(source))) for file, source in sources.items()}
    described: dict[str, set[str]] = {}
    bases_of: dict[str, set[str]] = {}
    for name, bases, methods in (each for file in found.values() for each in file):
        described.setdefault(name, set()).update(method.name for method in methods if ast.get_docstring(method))
        bases_of.setdefault(name, set()).update(bases)
    of_protocols = {method for name, bases in bases_of.items() if "Protocol" in bases for method in described[name]}

    def is_described(name: str, method: str) -> bool:
        if name not in described:
            return name not in ("Protocol", "Generic", "ABC", "NamedTuple", "Enum", "object")
        return method in described[name] or any(is_described(base, method) for base in bases_of[name])

    return [
        f"{file}: {name}.{method.name}"
        for file, each in found.items()
        for name, bases, methods in each
        if not name.startswith("_")
        for method in methods
        if not (method.name.startswith("_") or ast.get_docstring(method) or method.name in of_protocols)
        and not any("overload" in ast.unparse(mark) or ".setter" in ast.unparse(mark) for mark in method.decorator_list)
        and not any(is_described(base, method.name) for base in bases)
    ]


def test_no_docstring_only_points_elsewhere() -> None:
    assert {file: found for file, source in DESCRIBED.items() if (found := says_nothing(source))} == {}


def test_each_public_method_is_described_where_it_is_declared() -> None:
    assert undescribed(DESCRIBED) == []


def test_a_docstring_that_says_nothing_is_seen() -> None:
    source = 'class A:\n    def f(self):\n        """See `B.f`."""\n    def g(self):\n        """See to it."""\n'
    assert says_nothing(source + '    def h(self):\n        """Ignored."""\n') == ["f", "g", "h"]
    assert says_nothing('def f():\n    """Say it."""\n') == []


def test_docstrings_have_subjects_and_nothing_is_told() -> None:
    assert {file: found for file, source in DESCRIBED.items() if (found := unplain(source))} == {}


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("What a broker keeps of a user.", ["What"]),
        ("The rest: what it has read. What it has not is gone.", ["What"]),
        ("Notify the clients; none is told twice.", ["told"]),
        ("Tell them.", ["Tell"]),
        ("Return what was read, as KIP-227 says; return intelligible words.", []),
    ],
)
def test_a_docstring_without_a_subject_is_seen(docstring: str, found: list[str]) -> None:
    assert unplain(f'def f():\n    """{docstring}"""\n') == [f"line 2: {each}" for each in found]
    assert unplain(f'LIMIT = 7\n"""{docstring}"""\n') == [f"line 2: {each}" for each in found]


def test_an_override_needs_no_docstring_and_a_declaration_does() -> None:
    base = 'class A:\n    def f(self):\n        """Do it."""\n'
    assert undescribed({"a": base, "b": "class B(A):\n    def f(self): ...\n"}) == []
    assert undescribed({"a": base, "b": "class B(A):\n    def g(self): ...\n"}) == ["b: B.g"]
    assert undescribed({"a": base.replace("A:", "A(Protocol):"), "b": "class B:\n    def f(self): ...\n"}) == []
    assert undescribed({"a": base, "b": "class B:\n    def f(self): ...\n"}) == ["b: B.f"]
