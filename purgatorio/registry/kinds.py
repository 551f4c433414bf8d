"""The schema registries that run beside a cluster: where each is installed, and how it is started.

Karapace is Aiven's, in Python; its source says what it reads from the environment (``karapace/core/config.py``).
Apicurio Registry is Red Hat's, in Java, with an API like Confluent's at ``/apis/ccompat/v7``, and keeps its schemas in
Kafka as its storage ``kafkasql``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from purgatorio.late import dataclass

HOME_VARIABLE: Final = "PURGATORIO_REGISTRY_HOME"
"""An environment variable with the folder in which registries are installed."""
REPLICAS: Final = 3
LOOPBACK: Final = "127.0.0.1"
WILDCARDS: Final = ("", "0.0.0.0", "::")


class RegistryUnavailable(Exception):
    """There is no registry, or it does not start; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class RegistryTarget:
    """The cluster of a registry, and where the registry listens.

    Attributes:
        bootstrap: the brokers' addresses.
        brokers: how many there are.
        host: the address on which the registry listens.
        port: its port.
        login: how its Kafka clients log in, as settings of librdkafka; empty: they need not.
    """

    bootstrap: str
    brokers: int
    host: str
    port: int
    login: Mapping[str, str]

    @property
    def client_host(self) -> str:
        """The host by which clients on this machine reach the registry."""
        return LOOPBACK if self.host in WILDCARDS else self.host

    @property
    def replicas(self) -> int:
        """How many replicas the registry's topics have."""
        return min(REPLICAS, self.brokers)


class Launch(NamedTuple):
    """How a registry is started: its command, what its environment has more, and its working folder."""

    command: list[str]
    environ: dict[str, str]
    folder: Path


class RegistryKind(ABC):
    """A program that is a schema registry.

    Attributes:
        name: what users call it; also the folder in which it is installed.
        api: the path of the API that is like Confluent's.
        health: the path that answers whether it can be written to.
        patience_seconds: how long it may take to start on a busy machine.
    """

    name: str
    api: str
    health: str
    patience_seconds: float

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return home() / self.name

    @property
    @abstractmethod
    def is_installed(self) -> bool:
        """Whether it is there."""

    @abstractmethod
    def launch(self, target: RegistryTarget) -> Launch:
        """Return how to start it.

        Raises:
            RegistryUnavailable: it cannot log in to this cluster.
        """

    @abstractmethod
    def is_ready(self, answer: bytes) -> bool:
        """Return whether it can be written to, by what it answered at `health` with status 200."""


class Karapace(RegistryKind):
    """Karapace, in a virtual environment of its own: its dependencies are many, and some are pinned."""

    name = "karapace"
    api = ""
    health = "/_health"
    patience_seconds = 30.0

    @staticmethod
    def python_in(folder: Path) -> Path:
        """Return the interpreter of an environment."""
        return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def is_installed(self) -> bool:
        return self.python_in(self.folder).is_file()

    def launch(self, target: RegistryTarget) -> Launch:
        settings = {
            "bootstrap_uri": target.bootstrap,
            "host": target.host,
            "port": str(target.port),
            "advertised_hostname": target.client_host,
            "advertised_port": str(target.port),
            "client_id": "karapace",
            "log_level": "WARNING",
            "replication_factor": str(target.replicas),
            "protobuf_runtime_directory": "runtime",
            # It is alone: there is no earlier primary whose last write it would wait for, by default for five seconds.
            "waiting_time_before_acting_as_master_ms": "0",
            **_KARAPACE_LOGIN.of(target.login),
        }
        runtime = self.folder / "work"
        (runtime / "runtime").mkdir(parents=True, exist_ok=True)
        environ = {f"KARAPACE_{name.upper()}": value for name, value in settings.items()}
        # Its command `karapace` calls a function that it lacks (6.2.0); the module runs.
        return Launch([str(self.python_in(self.folder)), "-E", "-W", "ignore", "-m", "karapace"], environ, runtime)

    def is_ready(self, answer: bytes) -> bool:
        return bool(json.loads(answer)["status"]["schema_registry_ready"])


class Apicurio(RegistryKind):
    """Apicurio Registry, as unpacked from its archive; needs Java 21."""

    name = "apicurio"
    api = "/apis/ccompat/v7"
    health = "/apis/ccompat/v7/subjects"
    patience_seconds = 90.0

    @property
    def is_installed(self) -> bool:
        return (self.folder / "quarkus-run.jar").is_file()

    def launch(self, target: RegistryTarget) -> Launch:
        settings = {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": target.bootstrap,
            "QUARKUS_HTTP_HOST": target.host,
            "QUARKUS_HTTP_PORT": str(target.port),
            "QUARKUS_MANAGEMENT_ENABLED": "false",
            "QUARKUS_LOG_LEVEL": "WARN",
            **_APICURIO_LOGIN.of(target.login),
        }
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return Launch([_java(), *quick, "-jar", str(self.folder / "quarkus-run.jar")], settings, self.folder)

    def is_ready(self, answer: bytes) -> bool:
        return answer.startswith(b"[")


KINDS: Final[dict[str, RegistryKind]] = {each.name: each for each in (Karapace(), Apicurio())}
"""The registries by name; the first one that is installed is taken where none is named."""


def chosen(name: str | None) -> RegistryKind:
    """Return the registry of this name, or the first that is installed.

    Raises:
        RegistryUnavailable: it is not installed; the message says how to install it.
    """
    if name is not None and name not in KINDS:
        raise RegistryUnavailable(f"there is no schema registry {name!r}, only {' and '.join(KINDS)}")
    wanted = list(KINDS.values()) if name is None else [KINDS[name]]
    for kind in wanted:
        if kind.is_installed:
            return kind
    command = f"purgatorio registry install{'' if name is None else f' --kind {name}'}"
    raise RegistryUnavailable(f"no schema registry is installed in {home()}: {command}")


def home() -> Path:
    """Return the folder in which registries are installed, a folder each."""
    if chosen_home := os.environ.get(HOME_VARIABLE):
        return Path(chosen_home)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "purgatorio" / "registry"


def _java() -> str:
    """Return the `java` of JAVA_HOME, or of the PATH.

    Raises:
        RegistryUnavailable: there is none.
    """
    if java_home := os.environ.get("JAVA_HOME"):
        return str(Path(java_home) / "bin" / "java")
    java = shutil.which("java")
    if java is None:
        raise RegistryUnavailable("Apicurio Registry needs Java 21 or newer: set JAVA_HOME, or put java on the PATH")
    return java


class _Words(NamedTuple):
    """The names that a registry has for librdkafka's settings by which a client logs in."""

    names: dict[str, str]

    def of(self, login: Mapping[str, str]) -> dict[str, str]:
        """Return the settings in the registry's words.

        Raises:
            RegistryUnavailable: it has no word for one of them.
        """
        unknown = [name for name in login if name not in self.names]
        if unknown:
            raise RegistryUnavailable(f"the schema registry cannot log in by {unknown[0]}: give it another listener")
        return {self.names[name]: value for name, value in login.items()}


_KARAPACE_LOGIN: Final = _Words(
    {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
    }
)
_APICURIO_LOGIN: Final = _Words({})
