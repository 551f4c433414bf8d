"""Apache Kafka beside us: the broker's artifacts come by Maven, its logs lie in memory, each broker is a process.

Java 17 and Maven have to be installed. The artifacts (44 MB) are kept in a folder of the user's cache.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from processes import Brokers
from purgatorio.client.wire import Wire
from wire import metadata_of

POM = Path(__file__).parent / "java" / "pom.xml"
VERSION = "4.4.0"
MAVEN_TIMEOUT_SECONDS = 600
START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 30
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
# The options of Kafka's own start script, with a smaller heap: 512 MB hold all that is measured here.
JAVA_OPTIONS = (
    "-Xms512m",
    "-Xmx512m",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


def _artifacts(version: str) -> Path:
    """The folder with Kafka's jars; Maven fills it once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "purgatorio" / f"kafka-{version}"
    if folder.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise SystemExit("This benchmark needs Java 17 and Maven (Debian: apt-get install default-jdk-headless maven).")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        shutil.copy(POM, made)
        copy = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={made}/lib"]
        copy.append(f"-Dkafka.version={version}")
        ran = subprocess.run(copy, cwd=made, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_SECONDS, check=False)
        if ran.returncode:
            raise SystemExit(f"Maven could not fetch Apache Kafka:\n{ran.stdout}{ran.stderr}")
        Path(made, "lib").rename(folder)
    return folder


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago: Kafka's controllers must know each other's before they start."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def _properties(
    node: int, ports: tuple[int, int], controller_port: int, logs: Path, count: int, further: Mapping[str, object]
) -> str:
    """The settings of one broker: Kafka's defaults but for the addresses, what a small cluster needs, and further."""
    listeners = f"PLAINTEXT://127.0.0.1:{ports[0]}"
    if any(name.startswith("listener.name.sasl_plaintext.") for name in further):
        listeners += f",SASL_PLAINTEXT://127.0.0.1:{ports[1]}"
    roles = "broker"
    if node == 1:
        roles, listeners = "broker,controller", f"{listeners},CONTROLLER://127.0.0.1:{controller_port}"
    settings = {
        "process.roles": roles,
        "node.id": node,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "log.dirs": logs / str(node),
        "offsets.topic.replication.factor": min(count, 3),
        **further,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def memory_folder() -> str | None:
    """A folder that is held in memory, if this system has one: Kafka's logs then cost no disk, as ours do not."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextlib.contextmanager
def classes_of(source: str) -> Iterator[Path]:
    """A folder with the classes of a file beside the POM, compiled for Kafka's broker. A JDK has to be installed."""
    with tempfile.TemporaryDirectory() as made:
        compiler = ["javac", "-cp", f"{_artifacts(VERSION)}/*", "-d", made, str(POM.parent / source)]
        subprocess.run(compiler, check=True, timeout=START_TIMEOUT_SECONDS)
        yield Path(made)


@contextlib.contextmanager
def apache_kafka(
    count: int = 3,
    settings: Mapping[str, object] | None = None,
    *,
    version: str = VERSION,
    classes: Path | None = None,
) -> Iterator[Brokers]:
    """Brokers of Apache Kafka in KRaft mode, the first one the controller, too; `settings` go by Kafka's names.

    If they have some of a listener SASL_PLAINTEXT, each broker has one, too. `classes` is a folder of further classes.
    """
    *ports, controller_port = _free_ports(2 * count + 1)
    listeners = list(zip(ports[:count], ports[count:], strict=True))
    with tempfile.TemporaryDirectory(dir=memory_folder(), prefix="kafka-") as made:
        files = []
        for node, of_broker in enumerate(listeners, start=1):
            file = Path(made, f"{node}.properties")
            file.write_text(_properties(node, of_broker, controller_port, Path(made), count, settings or {}))
            tool = ["java", "-cp", f"{_artifacts(version)}/*", "kafka.tools.StorageTool"]
            subprocess.run(
                [*tool, "format", "-t", CLUSTER_ID, "-c", str(file)],
                check=True,
                capture_output=True,
                timeout=START_TIMEOUT_SECONDS,
            )
            files.append(file)
        started = time.perf_counter()
        with contextlib.ExitStack() as stack:
            pids = tuple(stack.enter_context(_broker(file, version, classes)) for file in files)
            addresses = [("127.0.0.1", port) for port, _ in listeners]
            _await_brokers(addresses)
            took_seconds = time.perf_counter() - started
            secured = [{"SASL_PLAINTEXT": ("127.0.0.1", port)} for _, port in listeners]
            yield Brokers(pids, addresses, "", took_seconds, secured)


@contextlib.contextmanager
def _broker(settings: Path, version: str, classes: Path | None) -> Iterator[int]:
    """One broker's process id. It ends without Kafka's orderly shutdown: its logs are thrown away."""
    class_path = f"{_artifacts(version)}/*" + (f"{os.pathsep}{classes}" if classes else "")
    command = ["java", *JAVA_OPTIONS, "-cp", class_path, "kafka.Kafka", str(settings)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(timeout=STOP_TIMEOUT_SECONDS)


def _await_brokers(addresses: list[tuple[str, int]]) -> None:
    """Wait until the first broker knows all brokers."""
    deadline = time.perf_counter() + START_TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError):
            wire = Wire(addresses[0])
            known = metadata_of(wire, []).brokers
            wire.close()
            if len(known) == len(addresses):
                return
        time.sleep(0.05)
    raise TimeoutError("Apache Kafka did not start")
