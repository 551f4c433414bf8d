"""The pytest plugin of Purgatorio: the fixture `kafka`, a cluster of brokers on real TCP for tests of any kind.

::

    def test_orders(kafka):                      # or: async def, with pytest-asyncio or anyio, asyncio or trio
        kafka.topic("orders", partitions=3)
        producer = confluent_kafka.Producer(kafka.client_config("confluent"))

    @pytest.mark.kafka(brokers=1, min_insync_replicas=1)
    def test_with_one_broker(kafka): ...

The marker's names are those of `purgatorio.testing.cluster`, and `scope`; markers of a class or a module serve all of
its tests, and the nearest one wins. Defaults are in the ini file::

    kafka_scope = session            # "function", the default: a fresh cluster for each test; "session": one, which is
                                     # reset for each test, so that fixtures of the session can share its addresses
    kafka_brokers = 1
    kafka_racks = a b c
    kafka_settings =
        min.insync.replicas = 2
        message.max.bytes = 2000
    kafka_leaks = error              # for clients that a test leaves connected: "warn" (the default), "error", "ignore"
    kafka_faults = error             # for fault rules that matched no request by the end of the test: the same choice
    kafka_fault_rules = faults.toml  # files of fault rules for all tests, as `purgatorio cluster --faults` takes them

The cluster runs in a thread of its own. *Clients* belong to the event loop that made them: one that a fixture of the
session made fails in tests whose loop is another ("attached to a different loop"), or times out. Make it in a fixture
of the test, or give both the same loop (`loop_scope` of pytest-asyncio); only addresses can be shared freely.

Tests of `purgatorio.testing.simulate` begin with the seeds that failed when they last ran; pytest's cache remembers
them. Under xdist the seeds of a test are dealt to the workers, unless it is marked xfail. ``--kafka-sim-seed=7`` runs
that seed alone, of each such test, and ``--kafka-sim-seconds=60`` begins no seed of a test after a minute.

A test of `hypothesis` runs its examples on one fixture: take `kafka_session` and call its `reset()` in each example.

The module lies outside the package, which pytest would otherwise import in every run, and imports nothing of it: the
first test that wants a cluster does.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from purgatorio.testing import Kafka
    from purgatorio.testing.moments import Moments
    from purgatorio.testing.open_clusters import OpenCluster

MARKER: Final = "kafka"
SCOPES: Final = ("function", "session")
TELLING: Final = ("warn", "error", "ignore")
"""The treatment of a finding that is no failure of the test's own."""
OTHER_LOOP: Final = "different loop"
OF_PROGRAMS: Final = (ArithmeticError, KeyError, NameError, UnicodeError)
"""Errors that no client raises because of the cluster's state; as json's, which need not be imported for this."""
_BELOW_THE_TEST: Final = ("purgatorio.", "concurrent.futures", "contextlib", "asyncio")
"""Modules between a test's call and the refusal that it gets."""
OTHER_LOOP_HINT: Final = (
    "A client belongs to the event loop that made it. Make it in the test or in a fixture of the test's own loop; only "
    "kafka.bootstrap may be shared between loops."
)

_OF_TEST: Final = pytest.StashKey["Kafka"]()
_OF_SESSION: Final = pytest.StashKey["Kafka"]()
_CLIENTS_OF_SESSION: Final = pytest.StashKey[set[str]]()
SIM_PART: Final = "_kafka_sim_part"
_OPEN_BEFORE: Final = pytest.StashKey["list[OpenCluster]"]()
_MOMENTS: Final = pytest.StashKey["Moments"]()


class KafkaLeakWarning(UserWarning):
    """A test left a client connected, or a cluster open; the ini option `kafka_leaks` makes it an error."""


class KafkaFaultWarning(UserWarning):
    """A fault rule of a test matched no request; the ini option `kafka_faults` makes it an error."""


# --- options ---


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini options."""
    parser.addini(
        "kafka_scope", "one Kafka cluster per 'function', or one per 'session' with resets", default="function"
    )
    parser.addini("kafka_brokers", "number of brokers of the fixture `kafka`", default="3")
    parser.addini("kafka_racks", "racks of the brokers, in turn", type="args", default=[])
    parser.addini("kafka_settings", "broker settings, one name=value per line", type="linelist", default=[])
    parser.addini("kafka_faults", "a fault rule that matches no request: 'warn', 'error' or 'ignore'", default="warn")
    parser.addini("kafka_fault_rules", "TOML files of fault rules, from the ini file's place", type="paths", default=[])
    group = parser.getgroup("kafka", "simulations of Kafka services")
    group.addoption(
        "--kafka-sim-seed",
        action="append",
        type=int,
        default=[],
        metavar="SEED",
        help="run this seed alone",
    )
    group.addoption(
        "--kafka-sim-seconds", type=float, metavar="SECONDS", help="begin no seed of a test after this time; run one"
    )
    parser.addini("kafka_leaks", "a client left connected by a test: 'warn', 'error' or 'ignore'", default="warn")


def pytest_configure(config: pytest.Config) -> None:
    """Check the ini options, and describe the marker for ``pytest --markers`` and ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        "kafka(brokers=3, racks=(), topics={}, faults=(), scope='function', **settings): the fixture's cluster; "
        "settings are Kafka's broker settings with underscores for dots, for example min_insync_replicas=2",
    )
    try:
        _one_of(config.getini("kafka_scope"), SCOPES, "kafka_scope")
        _one_of(config.getini("kafka_leaks"), TELLING, "kafka_leaks")
        _one_of(config.getini("kafka_faults"), TELLING, "kafka_faults")
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _one_of(value: Any, allowed: tuple[str, ...], name: str) -> str:
    if value in allowed:
        return str(value)
    near = get_close_matches(str(value), allowed, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"{name} must be {' or '.join(allowed)}, not {value!r}{hint}")


def _ini_options(config: pytest.Config) -> dict[str, Any]:
    """Return the default options of clusters, as `_merged` takes them.

    Raises:
        ValueError: an entry is wrong.
    """
    settings: dict[str, str] = {}
    for line in config.getini("kafka_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"kafka_settings: {line!r} must look like name=value")
        settings[name.strip()] = value.strip()
    brokers = str(config.getini("kafka_brokers"))
    if not brokers.isdecimal():
        raise ValueError(f"kafka_brokers must be a whole number, not {brokers!r}")
    own = {
        "brokers": int(brokers),
        "racks": tuple(config.getini("kafka_racks")),
        "faults": tuple(config.getini("kafka_fault_rules")),
    }
    return own | settings


def _merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names, whose spelling may differ between sources; later sources win."""
    from purgatorio.testing.options import canonical

    spelt: dict[str, tuple[str, Any]] = {}
    for source in sources:
        spelt |= {canonical(name): (name, value) for name, value in source.items()}
    return dict(spelt.values())


def _marked(node: pytest.Item) -> tuple[str | None, list[Mapping[str, Any]]]:
    """Return the scope and the options that the markers of a test name, the nearest marker last.

    Raises:
        ValueError: a marker is wrong.
    """
    scope: str | None = None
    sources: list[Mapping[str, Any]] = []
    for marker in reversed(list(node.iter_markers(MARKER))):
        if marker.args:
            raise ValueError(f"@pytest.mark.kafka takes names only, for example brokers={marker.args[0]!r}")
        options = dict(marker.kwargs)
        if "scope" in options:
            scope = _one_of(options.pop("scope"), SCOPES, "scope of @pytest.mark.kafka")
        sources.append(options)
    return scope, sources


# --- fixtures ---


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A Kafka cluster of three brokers on free ports of this machine; `@pytest.mark.kafka(…)` changes it."""
    config = request.config
    with _told():
        scope, marked = _marked(request.node)
        defaults = _merged(_ini_options(config))
        options = _merged(defaults, *marked)
    shared = (scope or config.getini("kafka_scope")) == "session" and options == defaults
    of_session: set[str] = set()
    if shared:
        was_used = _OF_SESSION in config.stash
        running = request.getfixturevalue("kafka_session")
        of_session = config.stash.setdefault(_CLIENTS_OF_SESSION, of_session)
        if was_used:
            of_session.update(running.clients)  # they may come back at any time after the reset
            running.reset()
    else:
        running = _started(options)
    request.node.stash[_OF_TEST] = running
    try:
        yield running
        found = _findings(request, running, of_session) if running.is_usable else []
    finally:
        if not shared:
            running.close()
    for finding in found:
        _tell(config, finding)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """The Kafka cluster of the session, with the ini file's options; under xdist, of the worker's session.

    Fixtures of any scope can use it. With `kafka_scope = session`, `kafka` is this cluster too, and resets it for each
    test: topics that a fixture of the session creates are gone then, its addresses are not.
    """
    with _told():
        options = _merged(_ini_options(request.config))
    running = _started(options)
    request.config.stash[_OF_SESSION] = running
    yield running
    running.close()


def _started(options: dict[str, Any]) -> Kafka:
    with _told(), _plain_imports():
        from purgatorio.testing import Kafka
        from purgatorio.testing.options import OWN_NAMES, ClusterOptions

        own = {name: value for name, value in options.items() if name in OWN_NAMES}
        settings = {name: value for name, value in options.items() if name not in OWN_NAMES}
        return Kafka(ClusterOptions(**own, settings=settings))


@contextmanager
def _told() -> Iterator[None]:
    """Fail a test with a sentence if its options are wrong or its cluster does not start; a traceback adds nothing."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        raise pytest.fail.Exception(f"kafka: {error}", pytrace=False) from None


@contextmanager
def _plain_imports() -> Iterator[None]:
    """Import without pytest's rewriting of assertions, which slows the broker's import by a third.

    pytest rewrites the modules of every distribution that has a plugin.
    """
    finders = sys.meta_path
    rewriting = [each for each in finders if type(each).__module__ == "_pytest.assertion.rewrite"]
    for each in rewriting:
        finders.remove(each)
    try:
        yield
    finally:
        finders[:0] = rewriting


# --- the log ---


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave out of `caplog` what brokers log; the report of a failed test shows it with what else was logged."""
    logging_plugin = session.config.pluginmanager.get_plugin("logging-plugin")
    handler = getattr(logging_plugin, "caplog_handler", None)
    if isinstance(handler, logging.Handler):
        handler.addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    """Return whether a record is the test's: not of its cluster's brokers, or the test asks for their logger.

    It asks by a level, as ``caplog.set_level(logging.INFO, logger="purgatorio")`` does.
    """
    module = sys.modules.get("purgatorio.testing.loop_thread")
    if module is None or not module.runs_here():
        return True
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.name.partition(".")[0] == "purgatorio":
        if logger.level:
            return True
        logger = logger.parent
    return not record.name.startswith("purgatorio.")


# --- simulations ---


def _is_simulation(function: object) -> bool:
    return hasattr(function, "scenario") and hasattr(function, "seeds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Deal the seeds of a simulation to the workers of xdist, one test for each.

    A test that is expected to fail stays whole: a part of its seeds may pass.
    """
    config, function = metafunc.config, metafunc.function
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if workers < 2 or not _is_simulation(function) or config.getoption("kafka_sim_seed"):
        return
    count = min(workers, len(function.seeds))
    if count > 1 and metafunc.definition.get_closest_marker("xfail") is None:
        metafunc.fixturenames.append(SIM_PART)
        names = [f"part {nth + 1} of {count}" for nth in range(count)]
        metafunc.parametrize(SIM_PART, [(nth, count) for nth in range(count)], indirect=True, ids=names)


@pytest.fixture(name=SIM_PART)
def _sim_part(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Return the part of a simulation's seeds that this test runs, and of how many; under xdist."""
    part: tuple[int, int] = request.param
    return part


def _seeding(item: pytest.Item) -> Any:
    """Return which seeds a simulation runs."""
    from purgatorio.testing.simulate.seeding import FailedSeeds, Seeding

    config = item.config
    params = dict(item.callspec.params) if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    part: Any = params.pop(SIM_PART, (0, 1))
    name = item.nodeid if params else item.nodeid.partition("[")[0]
    cache = getattr(config, "cache", None)
    return Seeding(
        only=tuple(config.getoption("kafka_sim_seed")),
        budget_seconds=config.getoption("kafka_sim_seconds"),
        part=part,
        failed=None if cache is None else FailedSeeds(cache.mkdir("kafka_simulate"), name),
        replay=f"pytest '{name}' --kafka-sim-seed=",
    )


# --- what a test leaves behind ---


def _findings(request: pytest.FixtureRequest, running: Kafka, of_session: Collection[str]) -> list[UserWarning]:
    """Return findings about a test that ends: its fault rules that matched nothing, its clients that stay."""
    config, name = request.config, request.node.name
    found: list[UserWarning] = []
    if config.getini("kafka_faults") != "ignore" and (idle := _idle_faults(request.node, running)):
        found.append(KafkaFaultWarning(f"{name} has fault rules that matched no request: {'; '.join(idle)}"))
    if config.getini("kafka_leaks") == "ignore":
        return found
    running.clear_faults()  # a bad network delays the end of a connection that the client has closed
    if left := running.left_open(of_session):
        told = f"{name} left Kafka clients connected: {', '.join(left)}. Close them in the test."
        found.append(KafkaLeakWarning(told))
    return found


def _idle_faults(node: pytest.Item, running: Kafka) -> list[str]:
    """Return the fault rules that matched no request, without those that several tests share."""
    own = any("faults" in marker.kwargs for marker in node.own_markers if marker.name == MARKER)
    return [str(each) for each in running.faults if not each.matched and (own or not each.at_start)]


def _tell(config: pytest.Config, finding: UserWarning) -> None:
    chosen = config.getini("kafka_leaks" if isinstance(finding, KafkaLeakWarning) else "kafka_faults")
    if chosen == "error":
        pytest.fail(str(finding), pytrace=False)
    elif chosen == "warn":
        warnings.warn(finding, stacklevel=2)


def _open_clusters() -> list[OpenCluster]:
    module = sys.modules.get("purgatorio.testing.open_clusters")
    return [] if module is None else module.open_clusters()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note the clusters that are open before the test's body runs, and say which seeds a simulation runs."""
    item.stash[_OPEN_BEFORE] = _open_clusters()
    if not _is_simulation(getattr(item, "obj", None)):
        with _watched(item):
            return (yield)
    from purgatorio.testing.simulate.seeding import seeded

    with seeded(_seeding(item)):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End the clusters that the test's body opened and forgot, and report them."""
    try:
        return (yield)
    finally:
        before = item.stash.get(_OPEN_BEFORE, None)
        if before is not None and (now := _open_clusters()):
            _end_forgotten(item, [each for each in now if each not in before and not each.by_fixture])


def _end_forgotten(item: pytest.Item, forgotten: list[OpenCluster]) -> None:
    for each in forgotten:
        each.close()
    if forgotten:
        places = ", ".join(each.where for each in forgotten)
        told = f"{item.name} never closed the Kafka cluster that it opened at {places}"
        _tell(item.config, KafkaLeakWarning(told))


# --- the report ---


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what the test's cluster was waiting for, and end its traceback where the test called us."""
    if call.excinfo is not None and not item.config.getoption("fulltrace", default=False):
        _end_at_callers_frame(call.excinfo.value)
    report = yield
    if report.failed and (text := _text_of(item, call)):
        report.sections.append((f"Kafka at the failed {report.when}", text))
    if call.when == "teardown":
        _forget(item)
    return report


def _forget(item: pytest.Item) -> None:
    """Let go of a test's cluster: pytest keeps its tests, and each would keep the records of its brokers."""
    stash = item.stash
    keys: tuple[pytest.StashKey[Any], ...] = (_OF_TEST, _MOMENTS, _OPEN_BEFORE)
    for key in keys:
        if key in stash:
            del stash[key]


@contextmanager
def _watched(item: pytest.Item) -> Iterator[None]:
    """Have the report made when an exception passes the test's own code, before its ``with`` blocks close clients."""
    running = _cluster_of(item)
    function = getattr(item, "obj", None)
    if running is None or function is None:
        yield
        return
    from purgatorio.testing.moments import Moments, functions_of

    functions = functions_of(function)
    with Moments(
        running.report, functions[0].__code__.co_filename if functions else str(item.path), functions
    ) as found:
        item.stash[_MOMENTS] = found
        yield


def _end_at_callers_frame(error: BaseException) -> None:
    """Leave out of a refusal's traceback the frames below the test's: the message says what was wrong with the call.

    Frames of a test that the library called in its turn stay, and so does all of an error that is no refusal: that may
    be a bug of ours. ``--full-trace`` shows everything.
    """
    if not isinstance(error, (ValueError, RuntimeError, TimeoutError)):
        return
    last, trace = None, error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if not module.startswith(_BELOW_THE_TEST):
            last = trace
        trace = trace.tb_next
    below = last and last.tb_next
    if last and below and str(below.tb_frame.f_globals.get("__name__", "")).startswith("purgatorio."):
        last.tb_next = None


def _cluster_of(item: pytest.Item) -> Kafka | None:
    running = item.stash.get(_OF_TEST, None)
    if running is None and "kafka_session" in getattr(item, "fixturenames", ()):
        running = item.config.stash.get(_OF_SESSION, None)
    return running if running is not None and running.is_usable else None


def _text_of(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Return the report of a failure: that of its moment, or of now; "" if there is no cluster any more."""
    failure = None if call.excinfo is None else call.excinfo.value
    moments: Moments | None = item.stash.get(_MOMENTS, None) if call.when == "call" else None
    text = "" if moments is None or failure is None else moments.text_of(failure)
    running = _cluster_of(item)
    if running is None:
        return text
    if not text:
        try:
            text = running.report()
        except Exception as error:  # whatever the cluster's state is, the test's own failure must be reported
            text = f"no report: {error}"
    if isinstance(failure, OF_PROGRAMS) or type(failure).__name__ == "JSONDecodeError":
        text = f"{type(failure).__name__} is no error of the cluster or of a client; what the cluster sees:\n{text}"
    from purgatorio.testing import door

    if door.is_found():
        text += f"\nto look at it while it runs, or at the prompt of --pdb: purgatorio top --attach {os.getpid()}"
    return f"{text}\n{OTHER_LOOP_HINT}" if OTHER_LOOP in str(failure) else text
