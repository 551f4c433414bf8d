"""A scene as a pytest, with a usual client, and as a shell script for a running ``purgatorio learn``."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from purgatorio.admin.learn.playing import GROUP
from purgatorio.admin.learn.scene import Act, Scene, SceneTopic, Step

WIDTH: Final = 110
_CLIENTS: Final = ("Consumer", "KafkaError", "KafkaException", "Producer", "ShareConsumer", "TopicPartition")
"""Names that tests import of confluent-kafka, if they use it."""
_WAITS_FOR: Final = '''
def until_waits_for(kafka, cause):
    """Wait until a request, or a group, waits for this cause."""
    ends = time.monotonic() + 10
    while not any(cause in repr(parked.causes) for parked in kafka.parked()):
        assert time.monotonic() < ends, kafka.report()
        time.sleep(0.01)
'''
_POLL_UNTIL: Final = '''
def poll_until(counts):
    """Poll consumers until each has so many partitions."""
    while [len(consumer.assignment()) for consumer in counts] != list(counts.values()):
        for consumer in counts:
            consumer.poll(0.05)
'''
_HELPERS: Final = {_WAITS_FOR: "until_waits_for(", _POLL_UNTIL: "poll_until("}
"""Functions that a test has if it calls them."""
_SHELL_HEAD: Final = r"""# It needs curl, the command purgatorio, and a `purgatorio learn` in another terminal.
set -euo pipefail
export PURGATORIO_ADMIN=${PURGATORIO_ADMIN:-http://localhost:9644}

# Sends a request: its path, and its body as JSON.
post() {
    curl -sS --fail-with-body -H 'Content-Type: application/json' -d "${2:-{\}}" "$PURGATORIO_ADMIN/api/v1/$1"
    echo
}

# Waits until something waits for this cause, and lists what waits.
until_waits_for() {
    until purgatorio parked list --json | grep "\"$1\"" > /dev/null; do sleep 0.1; done
    purgatorio parked list
}
"""


# --- as a pytest ---


def as_pytest(scene: Scene) -> str:
    """Return a file of tests with one test: it needs the plugin's fixture `kafka` and confluent-kafka."""
    body = "\n".join(_test_lines(scene)).lstrip("\n")
    helpers = [code.strip() for code, call in _HELPERS.items() if call in body]
    marker = ""
    if scene.settings:
        marker = (
            f"@pytest.mark.kafka({', '.join(f'{name}={_literal(value)}' for name, value in scene.settings.items())})\n"
        )
    test = f"{marker}def test_{scene.name.replace('-', '_')}(kafka):\n{body}"
    imports = _imports("\n".join([*helpers, test]))
    head = f'"""{scene.title}.\n\n{_wrapped(scene.keep)}\n"""' + (f"\n\n{imports}" if imports else "")
    return "\n\n\n".join([head, *helpers, test]) + "\n"


def _imports(code: str) -> str:
    """Return the imports that the code needs, as isort has them."""
    standard = [f"import {name}" for name in ("threading", "time") if f"{name}." in code]
    used = [name for name in _CLIENTS if re.search(rf"\b{name}\b", code)]
    others = [f"import {name}" for name in ("pytest",) if f"{name}." in code]
    if used:
        others.append(f"from confluent_kafka import {', '.join(used)}")
    operations = re.findall(r"kafka\.do\((\w+)\.\w+\(", code)
    ours = sorted(dict.fromkeys(operations))
    if ours:
        others.append(f"\nfrom purgatorio.admin.operations import {', '.join(ours)}")
    return "\n".join([*standard, *([""] if standard else []), *others])


def _test_lines(scene: Scene) -> Iterator[str]:
    for topic in scene.topics:
        yield from _indented(_topic(topic))
    for step in scene.steps:
        yield ""
        yield from _indented(f"# {line}" for line in textwrap.wrap(step.says, WIDTH))
        yield from _indented(_in_test(act) for act in step.acts if act.op)
        if step.test:
            yield from _indented(step.test.strip("\n").split("\n"))
        elif _named_cause(step):
            yield from _indented([f'until_waits_for(kafka, "{step.cause.split()[0]}")'])


def _named_cause(step: Step) -> bool:
    return bool(step.cause) and not step.cause.startswith(GROUP)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" if line else "" for line in lines)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH))


def _topic(topic: SceneTopic) -> Iterator[str]:
    more = f", partitions={topic.partitions}" if topic.partitions > 1 else ""
    more += "".join(f", {name.replace('.', '_')}={_literal(value)}" for name, value in topic.configs.items())
    yield f'kafka.topic("{topic.name}"{more})'
    if topic.leader is not None:
        yield f'kafka.move_leader("{topic.name}", to={topic.leader})'


def _literal(value: object) -> str:
    """Return a value as Python has it, with double quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(each)}" for name, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _in_test(act: Act) -> str:
    """Return how a test does an operation: by the kit's method if there is one."""
    given = dict(act.given)
    broker = given.get("id")
    match act.op, given:
        case "ChangeFollower", {"held": True}:
            return f"kafka.hold_follower({broker})"
        case "ChangeFollower", {"held": False}:
            return f"kafka.release({broker})"
        case ("KillBroker" | "StartBroker" | "PauseBroker" | "ResumeBroker") as name, _:
            return f"kafka.{name.removesuffix('Broker').lower()}({broker})"
        case "AdvanceClock", _:
            return f"kafka.clock.advance({given['seconds']:g})"
    module = act.kind.__module__.rpartition(".")[2]
    return f"kafka.do({module}.{act.op}({', '.join(f'{name}={_literal(value)}' for name, value in given.items())}))"


# --- as a shell script ---


def as_shell(scene: Scene) -> str:
    """Return a script that plays the scene: its clients over HTTP, and what is done to the cluster by commands."""
    lines = [f"post scenes/{scene.name}/start"]
    for number, step in enumerate(scene.steps):
        lines += ["", *(f"# {line}" for line in textwrap.wrap(step.says, WIDTH))]
        if not number:
            pass  # the start has done it
        elif step.acts and all(act.op for act in step.acts):
            lines += [_in_shell(act) for act in step.acts]
        else:
            lines.append(f"post scenes/{scene.name}/step '{json.dumps({'number': number})}'")
        if _named_cause(step):
            lines.append(f"until_waits_for {step.cause.split()[0]}")
        elif step.cause:
            lines.append(f"purgatorio groups describe {step.cause.removeprefix(GROUP)}")
    head = f"#!/usr/bin/env bash\n# {scene.title}.\n" + "".join(
        f"# {each}\n" for each in textwrap.wrap(scene.keep, WIDTH)
    )
    return "\n".join([head + _SHELL_HEAD, *lines, "", f"post scenes/{scene.name}/stop", ""])


def _in_shell(act: Act) -> str:
    """Return the command of an operation, or the request for it."""
    kind, given = act.kind, dict(act.given)
    if kind.command and all(not isinstance(value, dict) for value in given.values()):
        return " ".join(["purgatorio", kind.command, *_words(act)])
    path, body = kind.request(given)
    return f"post {path} {shlex.quote(json.dumps(body))}"


def _words(act: Act) -> Iterator[str]:
    """Yield the arguments of a command, as `purgatorio.admin.cli.operation_commands` takes them."""
    given: dict[str, Any] = dict(act.given)
    for argument in act.kind.arguments():
        if argument.name not in given:
            continue
        value = given[argument.name]
        option = f"--{argument.name.replace('_', '-')}"
        if argument.help.positional or (argument.help.positional is None and argument.place == "path"):
            yield shlex.quote(str(value))
        elif value is True:
            yield option
        else:
            yield f"{option} {shlex.quote(str(value))}"
