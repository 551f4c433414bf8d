"""The moment at which a test fails: the report is made while the test's clients are still open.

An exception that leaves ``async with AIOKafkaProducer(…)`` closes the client first. That may take ten seconds, and by
then nothing waits any more, and groups are empty. So the report is made when the exception passes the code of the test:
in Python 3.12 and newer the interpreter calls `Moments.passed` for each exception that does (PEP 669), in 3.11 the
test's function does so itself (`rewired.py`). A report belongs to its exception, and is used if the test fails by that.
"""

from __future__ import annotations

import contextlib
import dis
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, FunctionType, MethodType, TracebackType
from typing import Any, Final, NamedTuple, cast

from purgatorio.testing import closing
from purgatorio.unpatched import monotonic

FIRST_TAKEN: Final = 3
"""How many exceptions of a test get a report at once: a test may catch thousands (`pytest.raises`)."""
PAUSE_SECONDS: Final = 1.0
"""After the first ones there is one report in this time."""
PAUSE_AFTER_REFUSAL_SECONDS: Final = 60.0
"""A cluster that gave no report may have taken its whole time for that; it must not take it for each exception."""
TOOL_IDS: Final = (4, 3, 5, 2)
"""Ids of tools of `sys.monitoring` that are taken if they are free; 3 and 4 are for no special tool."""
NAME: Final = "purgatorio"
"""The name of the tool."""
MARK: Final = "_kafka_moment"
"""The attribute of an exception that says which report belongs to it: to keep the exception would keep clients open.

A number follows, one for each watch: clusters have their own reports, and an exception may be raised by several tests.
"""
_PASSING: Final = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)
"""Exceptions that end loops, generators and runs; none of them is a failure of a test."""
_MARKS_KEPT: Final = 64
_FRAMES_SEEN: Final = 1_000
MAX_WRAPPERS: Final = 20
_OURS: Final = ("purgatorio.", "contextlib")
_numbers: Final = itertools.count()


class Moment(NamedTuple):
    """A report of the time at which an exception passed the test's code.

    Attributes:
        at: when, in seconds, by `unpatched.monotonic`.
        text: the report.
    """

    at: float
    text: str


class _Mark(NamedTuple):
    """The mark that a watch leaves at an exception.

    Attributes:
        number: of its moment.
        earlier: see `_earlier_raising`.
    """

    number: int
    earlier: int


class Moments:
    """The moments of one test; a context manager that watches while it is open.

    Args:
        report: makes the report; what it raises is ignored.
        file: the file whose code is the test's.
        functions: the test's functions: interpreters that cannot watch a file watch them, and those beside them.
        then: is called with each exception that got a report.

    Attributes:
        begun: when the watch began, as `Moment.at`.
        next_at: before this time there is no further report; 0: there is one for each exception.
    """

    def __init__(
        self,
        report: Callable[[], str],
        file: str,
        functions: Sequence[FunctionType] = (),
        then: Callable[[BaseException, Moment], None] | None = None,
    ) -> None:
        self.begun = monotonic()
        self.file = file
        self._report, self._functions, self._then = report, functions, then
        self._mark = f"{MARK}_{next(_numbers)}"
        self._taken: dict[int, Moment | str] = {}
        self._count, self.next_at = itertools.count(), 0.0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Moments:
        self._open.enter_context(_watching(self, self._functions))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Watch no more; the moments stay."""
        self._open.close()

    def passed(self, error: BaseException) -> None:
        """Make the report for an exception that passes the test's code, the first time that it does."""
        if (self.next_at and monotonic() < self.next_at) or isinstance(error, _PASSING):
            return
        marks = vars(error)
        earlier, old = 0, marks.pop(self._mark, None)
        if old is not None:
            earlier = _earlier_raising(error, self.file, old.earlier)
            if earlier == old.earlier or sys.exc_info()[1] is error:  # it goes on, or its handler raises it on
                marks[self._mark] = old._replace(earlier=earlier)
                return
        number = next(self._count)  # other threads have theirs
        marks[self._mark] = _Mark(number, earlier)
        moment = self.of(error)
        try:
            moment = moment or Moment(monotonic(), self._report())
        except Exception as reason:  # no report is worth the loss of the error
            self._taken[number] = f"no report: {reason}"
            self._pause(PAUSE_AFTER_REFUSAL_SECONDS)
            return
        self._taken[number] = moment
        if number + 1 >= FIRST_TAKEN:
            self._pause(PAUSE_SECONDS)
        if self._then is not None:
            self._then(error, moment)

    def _pause(self, seconds: float) -> None:
        self.next_at = monotonic() + seconds
        _set_quiet()

    def of(self, failure: BaseException | None) -> Moment | None:
        """Return the moment at which a failure began, if that is known.

        An exception that a context manager made of another one, such as a TimeoutError of a CancelledError, began as
        that other one. One that the test raised while it handled another one did not.
        """
        found: list[Moment] = []
        for each in _from_first(failure):
            moment = self._taken_for(each)
            if isinstance(moment, Moment):
                found.append(moment)
        return min(found, default=None)

    def _taken_for(self, error: BaseException) -> Moment | str | None:
        mark = vars(error).get(self._mark)
        if mark is None or _earlier_raising(error, self.file, mark.earlier) != mark.earlier:  # raised anew in a pause
            return None
        return self._taken.get(mark.number)

    def text_of(self, failure: BaseException) -> str:
        """Return the report of a failure's moment, with a hint if clients took long to close; "" if there is none.

        If the cluster gave none then, the text says why: to ask it again would delay the test again.
        """
        moment = self.of(failure)
        if moment is None:
            refusal = self._taken_for(failure)
            return refusal if isinstance(refusal, str) else ""
        with contextlib.suppress(Exception):  # the report is worth more than the hint
            if hint := closing.hint(failure, self.file, moment.at - self.begun, monotonic() - moment.at):
                return f"{moment.text}\n{hint}"
        return moment.text

    def note(self, failure: BaseException) -> None:
        """Add the report of a failure to it as a note, if it has none: the one of its moment, or of now."""
        notes = _notes(failure)
        if not any(isinstance(each, Moment) and each.text in notes for each in self._taken.values()):
            failure.add_note(self.text_of(failure) or self._report())


def functions_of(called: Any) -> list[FunctionType]:
    """Return the function of the test's own code that is behind a test: none if it is of another kind.

    No attribute is asked of an object that is no function: mocks have all, and proxies do something.
    """
    for _ in range(MAX_WRAPPERS):
        if type(called) in (MethodType, staticmethod, classmethod):
            called = called.__func__
        if type(called) is not FunctionType:
            return []
        of_hypothesis = vars(called).get("hypothesis")
        inner = vars(called).get("__wrapped__") if of_hypothesis is None else of_hypothesis.inner_test
        if type(inner) not in (FunctionType, MethodType):
            return [called]
        called = inner
    return [called]


def of_caller(report: Callable[[], str]) -> Moments:
    """Return the moments of the code that calls this library, or of the `unittest.TestCase` that it runs.

    A TestCase shows what is noted at an exception, and closes its cluster later, when it is too late for a note: so
    each exception of its file gets one at once.
    """
    frame: FrameType | None = sys._getframe(1)
    file = ""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not file and not module.startswith(_OURS):
            file = frame.f_code.co_filename
        if module == "unittest.case" and frame.f_code.co_name == "run":
            case = frame.f_locals["self"]
            functions = functions_of(getattr(case, case._testMethodName, None))
            return Moments(report, functions[0].__code__.co_filename if functions else file, functions, noted)
        if (case := _set_up_by(module, frame)) is not None:
            functions = _tests_of(case)
            return Moments(report, functions[0].__code__.co_filename if functions else file, functions, noted)
        frame = frame.f_back
    return Moments(report, file)


def _set_up_by(module: str, frame: FrameType) -> type | None:
    """Return the class that a frame of unittest or pytest sets up; None if it does not."""
    if (module, frame.f_code.co_name) == ("unittest.suite", "_handleClassSetUp"):
        return cast("type", frame.f_locals["currentClass"])
    if (module, frame.f_code.co_name) == ("_pytest.unittest", "unittest_setup_class_fixture"):
        return cast("type | None", frame.f_locals.get("cls"))
    return None


def _tests_of(case: type) -> list[FunctionType]:
    from unittest import defaultTestLoader

    names = defaultTestLoader.getTestCaseNames(case)
    return [function for name in names for function in functions_of(getattr(case, name))]


def noted(error: BaseException, moment: Moment) -> None:
    """Add a report to an exception as a note, once."""
    if moment.text not in _notes(error):
        error.add_note(moment.text)


def _notes(error: BaseException) -> list[str]:
    notes: list[str] = getattr(error, "__notes__", [])
    return notes


def _earlier_raising(error: BaseException, file: str, known: int) -> int:
    """Return where the traceback of an exception begins to be that of an earlier raising, as the id of an entry.

    A mock raises one exception often, and its traceback grows: the call that it passes is in it already then.

    Args:
        file: of the calls that count; those of a runner may raise an exception on as often as they like.
        known: the result of the last time; it is the result again if the exception was not raised anew.
    """
    trace, frames = error.__traceback__, set[FrameType]()
    while trace is not None and id(trace) != known and len(frames) < _FRAMES_SEEN:
        frame = trace.tb_frame
        if frame in frames:
            return id(trace)
        if frame.f_code.co_filename == file:
            frames.add(frame)
        trace = trace.tb_next
    return known


def _from_first(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield a failure and the exceptions that it was before context managers, or handlers, of the test changed it."""
    left, seen = [failure], set[int]()
    while left and len(seen) < _MARKS_KEPT:
        error = left.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            left.extend(error.exceptions)
        if error.__context__ is not None and (error.__cause__ is error.__context__ or _comes_of_leaving(error)):
            left.append(error.__context__)


def _comes_of_leaving(error: BaseException) -> bool:
    """Return whether an exception came out of the end of a ``with`` block that another one was leaving."""
    trace = error.__traceback__
    while trace is not None:
        if _leaves_a_block(trace.tb_frame.f_code, trace.tb_lasti):
            return True
        trace = trace.tb_next
    return False


def _leaves_a_block(code: CodeType, at: int) -> bool:
    """Return whether an instruction calls, or awaits, the end of a ``with`` block that an exception leaves."""
    leaving = False
    for each in dis.get_instructions(code):
        if each.opname == "WITH_EXCEPT_START":
            leaving = True
        elif each.opname not in _AWAITING:
            leaving = False
        if each.offset >= at:
            return leaving and each.offset == at
    return False


_AWAITING: Final = frozenset(
    {
        "GET_AWAITABLE",
        "LOAD_CONST",
        "SEND",
        "YIELD_VALUE",
        "RESUME",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "CACHE",
        "CLEANUP_THROW",
    }
)
"""The instructions between the end of an ``async with`` block and its result."""


# --- how exceptions are seen ---

_watches: list[Moments] = []
_quiet_until = 0.0
"""Before this time no watch makes a report; to know it at once makes thousands of caught exceptions cheap."""
_tool_id: int | None = None
_changing: Final = threading.Lock()


@contextlib.contextmanager
def _watching(moments: Moments, functions: Sequence[FunctionType]) -> Iterator[None]:
    if not hasattr(sys, "monitoring"):
        from purgatorio.testing import rewired

        with rewired.calling(_of_their_files(functions), moments.passed):
            yield
        return
    with _changing:
        _watches.append(moments)
        _set_quiet()
        if _tool_id is None:
            _begin()
    try:
        yield
    finally:
        with _changing:
            _watches.remove(moments)
            _set_quiet()
            if not _watches:
                _end()


def _set_quiet() -> None:
    global _quiet_until
    _quiet_until = min((each.next_at for each in list(_watches)), default=0.0)


def _of_their_files(functions: Sequence[FunctionType]) -> list[FunctionType]:
    """Return functions with those beside them: a test may leave the making of clients to others of its file."""
    found = dict.fromkeys(functions)
    for each in functions:
        file, module = each.__code__.co_filename, each.__globals__.get("__name__")
        named = list(each.__globals__.values())
        classes = [
            value for value in named if issubclass(type(value), type) and vars(value).get("__module__") == module
        ]
        of_classes = [inner for value in classes for inner in list(vars(value).values())]
        beside = (function for value in (*named, *of_classes) for function in functions_of(value))
        found.update(dict.fromkeys(function for function in beside if function.__code__.co_filename == file))
    return list(found)


def _begin() -> None:
    """Have the interpreter say which code exceptions pass; without a free id for a tool there is nothing to see."""
    global _tool_id
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    for each in TOOL_IDS:
        if monitoring.get_tool(each) is None:
            with contextlib.suppress(ValueError):  # another thread took it
                monitoring.use_tool_id(each, NAME)
                _tool_id = each
                monitoring.register_callback(each, monitoring.events.RAISE, _raised)
                monitoring.set_events(each, monitoring.events.RAISE)
                return


def _end() -> None:
    global _tool_id
    tool, _tool_id = _tool_id, None
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    if tool is None or monitoring.get_tool(tool) != NAME:  # a test may free the ids of all tools
        return
    monitoring.set_events(tool, monitoring.events.NO_EVENTS)
    monitoring.register_callback(tool, monitoring.events.RAISE, None)
    monitoring.free_tool_id(tool)


def _raised(code: CodeType, at: int, error: BaseException) -> None:
    """Be called for each exception that reaches any Python function of the process: it costs a fraction of a µs."""
    if _quiet_until and monotonic() < _quiet_until:
        return
    for each in _watches:
        if code.co_filename == each.file:
            each.passed(error)
