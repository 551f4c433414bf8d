"""Reads the configuration: flags win over the environment, the environment over a TOML file, the file over defaults.

A setting may be spelt as in `purgatorio.broker.config` (``log_retention_ms``) or as Kafka spells it
(``log.retention.ms``). In the environment it is upper-case after a prefix: ``PURGATORIO_LOG_RETENTION_MS``;
``PURGATORIO_CONFIG`` names the file. The names of Kafka's own image are understood too, see `kafka_environment`. All
settings of Kafka's brokers are known, those that have no effect here, too, see `kafka_settings`.
An unknown setting is an error: ignoring it silently would be worse. Only variables that other programs set are a
warning: those of Kafka's image that no broker reads, and those by which Kubernetes describes its Services.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from purgatorio.broker.config.address_settings import is_per_listener
from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.cluster_settings import ClusterConfig
from purgatorio.broker.config.declare import SettingsError
from purgatorio.broker.config.descriptions import settings_of_process
from purgatorio.broker.config.kafka_environment import PREFIX, is_of_kubernetes, kafka_variables
from purgatorio.broker.log.setting import ConfigType, Setting

ENVIRONMENT_PREFIX: Final = "PURGATORIO_"
_FIELD_NAMES: Final = {
    dotted.replace(".", "_"): name
    for name, field in BrokerConfig.model_fields.items()
    for dotted in (field.dotted, *field.other_names)
}
"""The brokers' settings by Kafka's names of them, with underscores for dots."""
_OF_LISTENER: Final = "listener_name"
_PROPERTIES: Final = ".properties"
_ENTRY: Final = r"((?:[^\\=:\s]|\\.)*)(?:\s*[=:]\s*|\s+|$)(.*)"
_LINE_END: Final = r"\r\n|\r|\n"
_ESCAPE: Final = r"(?s)\\(u[0-9a-fA-F]{4}|.?)"
"""Expressions of property files, which are compiled when there is one."""
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
MAX_WARNINGS: Final = 20
"""The most variables of the environment that are named, one a line, as no settings."""


class ConfigError(Exception):
    """The configuration cannot be used.

    Attributes:
        problems: one line each, with the source, the setting and what is wrong.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Given(NamedTuple):
    """One setting as a source gives it. Messages name `place` and `spelling`; unless `typed`, the value is text."""

    place: str
    spelling: str
    value: Any
    typed: bool = False


def load_cluster_config(
    *,
    flags: Mapping[str, str | None] | None = None,
    assignments: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    warn: Callable[[str], object] = len,
) -> ClusterConfig:
    """Read the configuration of a process.

    Args:
        settings: settings as text, by any of their spellings, that a program gives; they win over all other sources.
        flags: settings that have a flag of their own, by name, as text; None: not given. They win over all sources.
        defaults: settings as text, by their names, that all sources win over.
        assignments: ``key=value`` as given to ``--set``; the last one for a key wins.
        file: a TOML file, or a file of Java properties, such as Kafka's server.properties; not given: the one that
            ``PURGATORIO_CONFIG`` names, if any.
        warn: gets a line about each variable of the environment that is left out, and about each setting without
            effect on which a user might rely.

    Raises:
        ConfigError: with all problems, not only the first.
    """
    environ = environ or {}
    path = file or environ.get(ENVIRONMENT_PREFIX + "CONFIG")
    known = settings_of_process()
    problems: list[str] = []
    merged: dict[str, Any] = {}
    strangers: list[str] = []
    for source in (
        (Given("", name, value) for name, value in (defaults or {}).items()),
        _from_file(Path(path), problems) if path else (),
        _from_kafka_environment(environ, problems, strangers),
        _from_environment(environ, strangers),
        _from_assignments(assignments, problems),
        (Given("", f"--{name.replace('_', '-')}", text) for name, text in (flags or {}).items() if text is not None),
        (Given("", name, value) for name, value in (settings or {}).items()),
    ):
        for given in source:
            _merge(given, known, merged, problems)
    if problems:
        raise ConfigError(problems)
    for variable in strangers[:MAX_WARNINGS]:
        warn(f"environment: {variable} is not a setting, and is left out{_suggestion(variable, known)}")
    if len(strangers) > MAX_WARNINGS:
        warn(f"environment: {len(strangers) - MAX_WARNINGS} more variables are not settings, and are left out")
    config = _build(merged)
    if config.broker.without_effect or config.broker.listener_name:
        from purgatorio.broker.config.kafka_settings import surprises

        for line in surprises(config.broker.without_effect, config.broker.listener_name):
            warn(line)
    return config


def _from_file(path: Path, problems: list[str]) -> Iterator[Given]:
    import tomllib  # not at the top: few processes have a file, and a test's first cluster should not wait for it

    place = f"config file {path}"
    try:
        if path.suffix == _PROPERTIES:
            yield from _from_properties(path, place)
            return
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        problems.append(f"{place}: {(error.strerror or str(error)).lower()}")
    except UnicodeDecodeError as error:
        problems.append(f"{place}: not text in UTF-8: {error}")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{place}: not valid TOML: {error}")
    else:
        yield from (Given(f"{place}: ", key, value, typed=True) for key, value in _flatten(tables))


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf with its dotted name: TOML reads ``log.retention.ms = 1`` as nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _from_properties(path: Path, place: str) -> Iterator[Given]:
    for key, value in parse_properties(path.read_text("utf-8")).items():
        yield Given(f"{place}: ", key, value.strip())


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of one of Java's property files, as Kafka's server.properties is, the last one of a name.

    A line has ``name=value``, ``name: value`` or ``name value``. One that begins with ``#`` or ``!`` is a comment, and
    one that ends in a backslash goes on in the next one. Source: the documentation of java.util.Properties.
    """
    found: dict[str, str] = {}
    before = ""
    for line in re.split(_LINE_END, text):
        line = before + line.lstrip(" \t\f")
        before = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            before = line[:-1]
            continue
        _add_property(line, found)
    if before:
        _add_property(before, found)
    return found


def _add_property(line: str, found: dict[str, str]) -> None:
    entry = re.fullmatch(_ENTRY, line, re.DOTALL)
    assert entry is not None, "a name may be empty, and anything may follow it"
    name, value = (re.sub(_ESCAPE, _character, each) for each in entry.groups())
    found[name] = value


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def _from_environment(environ: Mapping[str, str], strangers: list[str]) -> Iterator[Given]:
    for key, value in environ.items():
        if not key.startswith(ENVIRONMENT_PREFIX) or key == ENVIRONMENT_PREFIX + "CONFIG":
            continue
        if is_of_kubernetes(key.removeprefix(ENVIRONMENT_PREFIX), value):
            strangers.append(key)
        else:
            yield Given("environment: ", key, value)


def _from_kafka_environment(environ: Mapping[str, str], problems: list[str], strangers: list[str]) -> Iterator[Given]:
    try:
        for variable, name, value in kafka_variables(environ):
            if name is None:
                strangers.append(variable)
            else:
                yield Given(f"environment: {variable}: ", name, value.strip())
    except ValueError as error:
        problems.append(f"environment: {error}")


def _from_assignments(assignments: Iterable[str], problems: list[str]) -> Iterator[Given]:
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if equals:
            yield Given("--set ", key.strip(), value.strip())
        else:
            problems.append(f"--set {assignment}: must look like key=value")


def _merge(given: Given, settings: Mapping[str, Setting], merged: dict[str, Any], problems: list[str]) -> None:
    """Check one setting and put it into `merged`; if it is wrong, add a line to `problems`."""
    name = _canonical(given.spelling)
    of_listener = _setting_of_listener(name, settings)
    field = settings.get(of_listener or name) or _unread(of_listener or name)
    if field is None:
        problems.append(f"{given.place}{given.spelling} is not a setting{_suggestion(given.spelling, settings)}")
        return
    into, key = merged, name
    if of_listener is not None:
        into, key = merged.setdefault(_OF_LISTENER, {}), name.removeprefix(f"{_OF_LISTENER}_")
    try:
        into[key] = field.checked(given.value) if given.typed else field.read(given.value)
    except ValueError as error:
        is_secret = field.type is ConfigType.PASSWORD
        problems.append(f"{given.place}{given.spelling} {error}{'' if is_secret else f', not {given.value!r}'}")


def _setting_of_listener(name: str, settings: Mapping[str, Setting]) -> str | None:
    """Return the setting that `listener_name_external_ssl_client_auth` is about; None if it is about no listener's."""
    if not name.startswith(f"{_OF_LISTENER}_"):
        return None
    about = [each for each in settings if is_per_listener(each) and name.endswith(f"_{each}")]
    if not about:
        from purgatorio.broker.config.kafka_settings import by_field_name

        about = [each for each in by_field_name() if name.endswith(f"_{each}")]
    return max(about, key=len, default=None)


def _unread(name: str) -> Setting | None:
    """Return a setting of Kafka's that is not declared here; its table is read when the first one is asked for."""
    from purgatorio.broker.config.kafka_settings import unread

    return unread(name)


def _build(merged: Mapping[str, Any]) -> ClusterConfig:
    """The configuration from checked values; only values that contradict each other are still refused."""
    own = {name: value for name, value in merged.items() if name in ClusterConfig.model_fields}
    shared = {name: value for name, value in merged.items() if name not in own}
    try:
        return ClusterConfig(**own, broker=BrokerConfig(**shared))
    except SettingsError as error:
        raise ConfigError(error.problems) from None


def _canonical(spelling: str) -> str:
    """A setting's name as a field, from any of its spellings."""
    name = spelling.removeprefix(ENVIRONMENT_PREFIX).lstrip("-").lower().replace(".", "_").replace("-", "_")
    return _FIELD_NAMES.get(name, name)


def _suggestion(spelling: str, settings: Mapping[str, Setting]) -> str:
    """``; did you mean …?`` in the style of the mistaken name; nothing if no setting has a similar name."""
    from purgatorio.broker.config.kafka_settings import by_field_name

    prefix = next((each for each in (ENVIRONMENT_PREFIX, PREFIX) if spelling.startswith(each)), "")
    canonical = _canonical(spelling.removeprefix(prefix))
    if prefix == PREFIX and canonical in settings:
        prefix, known = ENVIRONMENT_PREFIX, [canonical]  # a setting of Purgatorio's own
    else:
        known = list(by_field_name()) if prefix == PREFIX else [*settings, *by_field_name()]
    near = difflib.get_close_matches(canonical, dict.fromkeys(known), n=1)
    if not near:
        return ""
    name = near[0]
    if prefix:
        name = prefix + name.upper()
    elif "." in spelling:
        name = name.replace("_", ".")
    return f"; did you mean {name}?"
