"""The environment variables of Kafka's official container image, so that an image can be swapped for Purgatorio's.

``KAFKA_LOG_RETENTION_MS`` is the setting ``log.retention.ms``; ``__`` stands for ``_`` and ``___`` for ``-``. They are
read only if one of `SIGNS` is there, as the image needs them: an application's ``KAFKA_BOOTSTRAP_SERVERS`` says nothing
about a broker. A variable that names no setting of Kafka's is none of a broker's: Kubernetes puts some there of its
own, for a Service named kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PREFIX: Final = "KAFKA_"
SIGNS: Final = ("KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
SECRETS: Final = Path("/etc/kafka/secrets")
"""Where the image looks for the files that ``KAFKA_SSL_…_FILENAME`` and ``…_CREDENTIALS`` name."""

_NOT_SETTINGS: Final = ("OPTS", "HEAP_OPTS", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS", "VERSION", "HOME", "DEBUG")
_NOT_SETTINGS_STARTS: Final = (
    "BOOTSTRAP_",
    "CLUSTERS_",
    "DEBUG_",
    "JMX_",
    "LOG4J_",
    "TOOLS_LOG4J_",
    "UI_",
)
_OF_KUBERNETES: Final = re.compile(r"(^|.*_)(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_OF_LISTENER: Final = "listener.name."
_OF_AUTHORIZER: Final = ("allow.everyone.if.no.acl.found", "super.users")
"""Settings of Kafka's StandardAuthorizer, which are not among those of brokers."""
_FILES: Final = {
    "ssl.keystore.filename": "ssl.keystore.location",
    "ssl.truststore.filename": "ssl.truststore.location",
    "ssl.key.credentials": "ssl.key.password",
}
_PASSWORDS: Final = ("ssl.keystore.credentials", "ssl.truststore.credentials")
"""PEM files have none."""
_EVERYWHERE: Final = "0.0.0.0"


def kafka_variables(environ: Mapping[str, str], secrets: Path = SECRETS) -> Iterator[tuple[str, str | None, str]]:
    """Return the image's variables in the environment, each with its setting's dotted name and value.

    The name is None if Kafka has no such setting. There are none without the image's signs.

    Raises:
        ValueError: a file that a variable names cannot be used; the text names the variable.
    """
    if not any(sign in environ for sign in SIGNS):
        return
    from purgatorio.broker.config.kafka_settings import unread

    for variable, value in environ.items():
        rest = variable.removeprefix(PREFIX)
        name = _dotted(rest)
        if rest == variable or not _is_setting(rest) or name in _PASSWORDS:
            continue
        if name in _FILES:
            yield variable, _FILES[name], _file_setting(variable, name, secrets / value)
        elif is_of_kubernetes(rest, value):
            yield variable, None, value
        else:
            is_known = name.startswith(_OF_LISTENER) or name in _OF_AUTHORIZER or unread(name.replace(".", "_"))
            yield variable, name if is_known else None, value
    if "KAFKA_LISTENERS" not in environ and "KAFKA_ADVERTISED_LISTENERS" in environ:
        everywhere = _everywhere(environ["KAFKA_ADVERTISED_LISTENERS"])
        yield "KAFKA_ADVERTISED_LISTENERS, as KAFKA_LISTENERS,", "listeners", everywhere


def is_of_kubernetes(rest: str, value: str) -> bool:
    """Return whether a variable is Kubernetes' description of a Service, whose name the variable begins with.

    Args:
        rest: the variable's name without this name and the underscore behind it, such as PORT_9092_TCP.
    """
    is_address = rest.endswith("PORT") and value.startswith(("tcp://", "udp://", "sctp://"))
    return is_address or _OF_KUBERNETES.fullmatch(rest) is not None


def _is_setting(rest: str) -> bool:
    return rest not in _NOT_SETTINGS and not rest.startswith(_NOT_SETTINGS_STARTS)


def _dotted(rest: str) -> str:
    """Return Kafka's name of a setting: ``___`` is a dash, ``__`` an underscore, ``_`` a dot."""
    return rest.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


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
