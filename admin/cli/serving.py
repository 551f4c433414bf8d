"""Runs a cluster as a process: the event loop, the signals, and the greeting."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.build import build
from purgatorio.admin.cli.certificates import client_settings
from purgatorio.admin.cli.command import ADMIN_VARIABLE, DEFAULT_ADMIN_URL
from purgatorio.admin.cli.logging_setup import configure_logging
from purgatorio.admin.cli.owning import PLAIN_WAYS, Ways, ready_line, stop_with_parent
from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.beginning import NO_BEGINNING, Beginning, with_tier
from purgatorio.admin.operations.control.importing import NotImported
from purgatorio.admin.web.server import AdminServer
from purgatorio.broker.causes.words import and_more
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.listeners import PLAINTEXT, ListenerAddress, has_security, listener_configs
from purgatorio.broker.layers.faults import AnyFault
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.node.broker_maker import TierUnusable
from purgatorio.broker.security.plain import listed_users
from purgatorio.broker.security.throw_away import CertificateFiles
from purgatorio.broker.security.tls import TlsError
from purgatorio.broker.server import open_files
from purgatorio.broker.tier.location import FOLDER, Location, at_the_start
from purgatorio.broker.tier.store import Refused, StoreError
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.broker.time.garbage import GarbageTuning
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.broker.time.system_clock import SystemClock

if TYPE_CHECKING:
    from purgatorio.registry import SchemaRegistry

_STOP_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that stop the cluster in good order. SIGHUP is a terminal that was closed; Windows has none."""
MAX_TAKEN: Final = 5
"""Addresses that are named when others listen on them."""
_DEFAULT_BOOTSTRAP_PORT: Final = 9092
THREAD_SWITCH_SECONDS: Final = 0.0005
"""The time for which another thread may hold the interpreter while the event loop wants it. The text of a scrape is
made in a thread; with Python's default of 5 ms each turn of the loop waits so long meanwhile."""
_REPOSITORY: Final = Path(__file__).resolve().parents[2]


def run(
    config: ClusterConfig,
    faults: Sequence[AnyFault] = (),
    certificates: CertificateFiles | None = None,
    beginning: Beginning = NO_BEGINNING,
    ways: Ways = PLAIN_WAYS,
    *,
    learns: bool = False,
) -> int:
    """Run the cluster until a signal stops it.

    Args:
        certificates: throw-away ones, of which clients have to know.
        beginning: the data that the cluster begins with, and where it is kept at the end.
        ways: how the process prints its addresses, and what ends it beside signals.
        learns: whether the page offers scenes.

    Returns:
        the process's exit code: 0, 1 if the process cannot listen on an address or not all data was kept, or 2 if it
            cannot use its settings.
    """
    with _own_folder(config):
        configure_logging(config.log_format, config.log_level)
        open_files.raise_limit()
        AdminServer.load()
        sys.setswitchinterval(THREAD_SWITCH_SECONDS)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(serve(config, faults, certificates, beginning, ways, learns=learns))


@contextmanager
def _own_folder(config: ClusterConfig) -> Iterator[None]:
    """Keep other processes from beginning with the folder of the tier, if it is one: buckets have no locks.

    Raises:
        DataUnusable: another process uses it, or there can be no tier at the location.
    """
    location = config.broker.tier_location
    if location is None:
        yield
        return
    from purgatorio.admin.operations.control.data_folder import DataFolder, DataUnusable
    from purgatorio.broker.tier.obstore_store import check_location

    try:
        check_location(location)
    except Refused as error:
        raise DataUnusable(f"tier.location: {error}") from error
    at = Location.parse(location)
    if at.scheme != FOLDER:
        yield
        return
    try:
        folder = DataFolder(Path(at.place))
    except DataUnusable as error:
        raise DataUnusable(f"tier.location: {error}; name another one, or stop what uses it") from error
    with closing(folder):
        yield


async def serve(
    config: ClusterConfig,
    faults: Sequence[AnyFault],
    certificates: CertificateFiles | None,
    beginning: Beginning,
    ways: Ways,
    *,
    learns: bool = False,
) -> int:
    """Run the cluster until a signal stops it; a second one ends the process at once. Returns the exit code."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    if ways.with_parent:
        stop_with_parent(stop)
    # A movable clock costs no more than the machine's; so the time of every cluster can be moved over its admin HTTP.
    try:
        cluster = Cluster(config, MovableClock(), garbage=GarbageTuning(), cluster_id=await _earlier_cluster(config))
        if learns:
            cluster.admin.learns = True
    except (TlsError, ValueError) as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 2
    if ways.with_parent:
        cluster.faults.record_requests()  # for the report of a failed test
    try:
        await first_of(begin(cluster, beginning, faults), stop.wait())
    except OSError as error:
        print(f"purgatorio: {why_not_listening(config) or error}", file=sys.stderr)
        return 1
    except (NotImported, OperationRefused, TierUnusable) as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 2
    if not cluster.has_begun:
        return 0  # a signal came first; a folder for data is as it was
    begun = cluster.beginning
    assert isinstance(begun, Beginning)
    try:
        try:
            async with _registry(cluster, config, ways) as registry:
                print(_announcement(cluster, config, certificates, ways, registry, learns), flush=True)
                report_ready()
                await first_of(stop.wait(), cluster.failed(), begun.keep_up())
        finally:  # the data of the others is kept when a broker fails, too
            not_kept = await begun.keep(cluster)
            if not_kept is not None:
                print(f"purgatorio: {not_kept}", file=sys.stderr)
    finally:
        await cluster.stop()
    return 0 if not_kept is None else 1


async def begin(cluster: Cluster, beginning: Beginning, faults: Sequence[AnyFault]) -> None:
    """Start a cluster, and give it what it begins with. The rules are at work from the first request of a client on."""

    def renew() -> None:
        for rule in faults:
            cluster.faults.add(rule)

    if cluster.claim is not None:
        taken = why_not_listening(cluster.config)
        if taken:
            raise OSError(taken)  # before the tier is claimed: it may be that of the cluster that listens there
        beginning, said = await with_tier(beginning, cluster)
        if said:
            print(f"purgatorio: {said}", file=sys.stderr, flush=True)
    cluster.beginning = beginning
    if beginning.is_empty:
        renew()
    await cluster.start()
    if not beginning.is_empty:
        renew()
    cluster.when_renewed = renew
    if beginning.tier is not None:
        cluster.beginning = replace(beginning, snapshot=None)  # a reset begins with nothing of the tier


async def _earlier_cluster(config: ClusterConfig) -> str | None:
    """Return the id of the cluster that the tier has kept; None: there is none, or no tier.

    Raises:
        TierUnusable: the tier cannot be used, or has several.
    """
    location = config.broker.tier_location
    if location is None:
        return None
    from purgatorio.admin.operations.control.tier_keeping import earlier_cluster
    from purgatorio.broker.tier.obstore_store import open_store

    try:
        store = open_store(location)
        async with at_the_start(store, SystemClock()):
            return await earlier_cluster(store)
    except StoreError as error:
        raise TierUnusable(f"tier.location: {error}") from error


def _registry(
    cluster: Cluster, config: ClusterConfig, ways: Ways
) -> AbstractAsyncContextManager[SchemaRegistry | None]:
    """Return what runs a schema registry while it is entered, if one is wanted; few clusters load what does it."""
    if ways.registry is None:
        return nullcontext()
    from purgatorio.admin.cli.registry_beside import registry_beside

    return registry_beside(cluster, config, ways.registry)


def _announcement(
    cluster: Cluster,
    config: ClusterConfig,
    certificates: CertificateFiles | None,
    ways: Ways,
    registry: SchemaRegistry | None,
    learns: bool,
) -> str:
    if ways.print_json:
        return ready_line(cluster.bootstrap, cluster.admin, registry)
    settings = _settings_of_clients(cluster, config, certificates)
    url = "" if registry is None else registry.url
    return greeting(cluster, settings, plain=not has_security(config.broker), registry=url, learns=learns)


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these ends, cancel the others, and raise the exception of the first, if any."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on the first signal; the second signal has its default effect and ends the process."""
    loop = asyncio.get_running_loop()

    def stop_once() -> None:
        for number in _STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue  # nohup: the process shall outlive its terminal
        # Not the loop's add_signal_handler: asyncio has none on Windows.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop_once))


def report_ready() -> None:
    """Report to systemd that clients are answered, if it waits for that (``Type=notify``, sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] in ("/", "@"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reporting, suppress(OSError):
            reporting.sendto(b"READY=1", address if address[0] == "/" else f"\0{address[1:]}")


def _settings_of_clients(cluster: Cluster, config: ClusterConfig, files: CertificateFiles | None) -> list[str]:
    """The settings with which clients connect to the first listener with TLS."""
    if files is None:
        return []
    secret = {each.name: each.protocol for each in listener_configs(config.broker) if each.protocol.has_tls}
    endpoint = next(each for each in cluster.endpoints[0][1] if each.listener in secret)
    users = listed_users(config.broker.sasl_users) if config.broker.sasl_users else {}
    return client_settings(endpoint, secret[endpoint.listener], files, list(users))


def greeting(
    cluster: Cluster, settings: Sequence[str] = (), *, plain: bool = True, registry: str = "", learns: bool = False
) -> str:
    """The running brokers, their addresses, and what to do next: settings for clients with TLS, or commands to try.

    Args:
        settings: lines with what clients need to connect.
        plain: whether clients need neither credentials nor TLS, so that the commands work.
        registry: the URL of the schema registry, if there is one.
        learns: whether the page plays scenes, which have clients of their own.
    """
    url = cluster.admin_url.rstrip("/")
    lines = [f"Purgatorio is running, {len(cluster.endpoints)} broker{'s' * (len(cluster.endpoints) > 1)}:"]
    lines += [f"  broker {broker_id:<4} {shown(endpoints)}" for broker_id, endpoints in cluster.endpoints]
    if registry:
        lines.append(f"  registry    {registry}")
    lines += [f"  page        {cluster.page_url}", f"  metrics     {url}/metrics", f"  build       {build()}", ""]
    if settings:
        lines += [*settings, ""]
    elif learns:
        lines += ["Open the page, and start a scene: it has clients of its own.", ""]
    elif plain:
        lines.append("Try, in another terminal:")
        lines += [*(f"  {command}" for command in next_commands(cluster.bootstrap)), ""]
    if url.rpartition(":")[2] != DEFAULT_ADMIN_URL.rpartition(":")[2]:
        lines += [f"Commands such as `purgatorio why` find it by: export {ADMIN_VARIABLE}={url}", ""]
    return "\n".join([*lines, "Ctrl-C stops it."])


def shown(endpoints: Sequence[Endpoint]) -> str:
    """Return the addresses for clients, with the listeners' names unless there is just the usual one."""
    if [each.listener for each in endpoints] == [PLAINTEXT]:
        return f"{endpoints[0].host}:{endpoints[0].port}"
    return "  ".join(str(ListenerAddress(*each)) for each in endpoints)


def next_commands(bootstrap: str) -> list[str]:
    """The next commands to try, ready to paste: the repository's toy programs, or an installation's own commands."""
    first = bootstrap.partition(",")[0]
    port = int(first.rpartition(":")[2])
    where = "" if port == _DEFAULT_BOOTSTRAP_PORT else f" --bootstrap {first}"
    scripts = _REPOSITORY / "scripts"
    if not (scripts / "toy_producer.py").is_file():
        return [
            f"purgatorio topics create orders{where}",
            f"echo hello | purgatorio records produce orders{where}",
            f"purgatorio records consume orders{where}",
        ]
    python = _from_here(_plainly_named(Path(sys.executable)))
    return [
        f"{python} {_from_here(scripts / 'toy_producer.py')} --acks all --records 10{where}",
        f"{python} {_from_here(scripts / 'toy_consumer.py')}{where}",
    ]


def own_command() -> str:
    """Return how the ``purgatorio`` command is typed: in a clone of the repository, by its script."""
    script = _REPOSITORY / "scripts" / "run"
    return (
        f"./{script.relative_to(Path.cwd())}"
        if script.is_file() and script.is_relative_to(Path.cwd())
        else "purgatorio"
    )


def _plainly_named(python: Path) -> Path:
    """The interpreter as `python` if that is the same file; the installed command starts it as python3."""
    plain = python.with_name("python")
    return plain if plain.exists() and plain.samefile(python) else python


def _from_here(path: Path) -> str:
    """The path relative to the current directory if it lies below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def why_not_listening(config: ClusterConfig, *, admin_ports: int = 1) -> str | None:
    """The addresses that cannot be listened on, and why; None if all can be by now.

    Args:
        admin_ports: how many ports are taken from ``admin.port`` on.
    """
    flag = "--port" if config.broker.listeners is None else "--set listeners=…"
    wanted = [(each.host, each.port, flag) for broker in config.broker_configs() for each in listener_configs(broker)]
    admin_host, first = config.admin_address
    last = min(first + admin_ports - 1, 65535) if first else 0
    wanted += [(admin_host, port, "--admin-port") for port in range(first, last + 1)]
    taken = []
    for host, port, flag in wanted:
        try:
            family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                taken.append((host, port, flag))
                continue
            return f"cannot listen on {host}:{port}: {error.strerror or os.strerror(error.errno or 0)}"
    if len(taken) > 1:
        ports = ", ".join(f"{host}:{port}" for host, port, _ in taken[:MAX_TAKEN]) + and_more(len(taken[MAX_TAKEN:]))
        flags = " and ".join(dict.fromkeys(flag for _, _, flag in taken))
        return f"these are in use: {ports}; choose others with {flags} (0: any free port)"
    for host, port, flag in taken:
        return f"port {port} on {host} is in use; choose another with {flag} (0: any free port)"
    return None
