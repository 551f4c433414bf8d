"""The environment variables of Kafka's official container image, so that an image can be swapped for Purgatorio's.

``KAFKA_LOG_RETENTION_MS`` is the setting ``log.retention.ms``; ``__`` stands for ``_`` and ``___`` for ``-``. They are
read only if one of `SIGNS` is there, as the image needs them: an application's ``KAFKA_BOOTSTRAP_SERVERS`` says nothing
about a broker. What Purgatorio has no use for (controllers, disks, threads) is left out; what it does not know is
refused, as in every source of settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from purgatorio.broker.config.broker_settings import BrokerConfig

PREFIX: Final = "KAFKA_"
SIGNS: Final = ("KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
SECRETS: Final = Path("/etc/kafka/secrets")
"""Where the image looks for the files that ``KAFKA_SSL_…_FILENAME`` and ``…_CREDENTIALS`` name."""

_NOT_SETTINGS: Final = ("OPTS", "HEAP_OPTS", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS", "VERSION", "HOME", "DEBUG")
_NOT_SETTINGS_STARTS: Final = ("JMX_", "LOG4J_", "DEBUG_", "BOOTSTRAP_", "CLUSTERS_", "UI_")
_WITHOUT_USE: Final = (
    "background.threads",
    "confluent.",
    "controller.",
    "group.coordinator.",
    "group.share.",
    "initial.broker.registration.",
    "log.cleaner.dedupe.",
    "log.cleaner.io.",
    "log.cleaner.threads",
    "log.dir",
    "log.flush.",
    "log.index.",
    "log.segment.delete.",
    "metadata.",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.",
    "num.replica.",
    "offsets.load.",
    "offsets.topic.compression.",
    "offsets.topic.segment.",
    "process.roles",
    "server.max.",
    "share.",
    "socket.listen.",
    "socket.receive.",
    "socket.send.",
    "transaction.state.log.load.",
    "transaction.state.log.segment.",
)
"""Starts of settings about controllers, disks and threads, which Purgatorio has not; the settings that it has pass."""
_KNOWN: Final = frozenset(name.replace("_", ".") for name in BrokerConfig.model_fields)
_FILES: Final = {
    "ssl.keystore.filename": "ssl.keystore.location",
    "ssl.truststore.filename": "ssl.truststore.location",
    "ssl.key.credentials": "ssl.key.password",
}
_PASSWORDS_OF_STORES: Final = ("ssl.keystore.credentials", "ssl.truststore.credentials")
"""PEM files have none."""
_EVERYWHERE: Final = "0.0.0.0"


def kafka_settings(environ: Mapping[str, str], secrets: Path = SECRETS) -> Iterator[tuple[str, str, str]]:
    """Return the settings in the environment: variable, dotted name, value; none without the image's signs.

    Raises:
        ValueError: a file that a variable names cannot be used; the text names the variable.
    """
    if not any(sign in environ for sign in SIGNS):
        return
    found = {
        variable: (_dotted(variable.removeprefix(PREFIX)), value)
        for variable, value in environ.items()
        if variable.startswith(PREFIX) and _is_setting(variable.removeprefix(PREFIX))
    }
    controllers = {name.strip().upper() for name in environ.get("KAFKA_CONTROLLER_LISTENER_NAMES", "").split(",")}
    if "KAFKA_LISTENERS" not in environ and "KAFKA_ADVERTISED_LISTENERS" in environ:
        found["KAFKA_ADVERTISED_LISTENERS, as KAFKA_LISTENERS,"] = (
            "listeners",
            _everywhere(environ["KAFKA_ADVERTISED_LISTENERS"]),
        )
    for variable, (name, value) in found.items():
        if name in _FILES:
            yield variable, _FILES[name], _file_setting(variable, name, secrets / value)
        elif name in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
            yield variable, name, _without(controllers, value)
        elif name in _KNOWN or (name not in _PASSWORDS_OF_STORES and not name.startswith(_WITHOUT_USE)):
            yield variable, name, value


def _is_setting(rest: str) -> bool:
    return rest not in _NOT_SETTINGS and not rest.startswith(_NOT_SETTINGS_STARTS)


def _dotted(rest: str) -> str:
    """Return Kafka's name of a setting: ``___`` is a dash, ``__`` an underscore, ``_`` a dot."""
    return rest.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _without(controllers: set[str], text: str) -> str:
    """Return a list of listeners without those of controllers."""
    return ",".join(each for each in text.split(",") if each.partition(":")[0].strip().upper() not in controllers)


def _everywhere(advertised: str) -> str:
    """Return the advertised listeners on every address of the machine, as the image starts them."""
    entries = []
    for each in advertised.split(","):
        name, _, address = each.partition("://")
        entries.append(f"{name}://{_EVERYWHERE}:{address.rpartition(':')[2]}")
    return ",".join(entries)


def _file_setting(variable: str, name: str, path: Path) -> str:
    if name == "ssl.key.credentials":
        try:
            return path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{variable}: {path} cannot be read: {error}") from None
    if path.suffix.lower() in (".jks", ".p12", ".pfx"):
        raise ValueError(f"{variable} names a {path.suffix[1:].upper()} file, but PEM files alone are read here")
    return str(path)
