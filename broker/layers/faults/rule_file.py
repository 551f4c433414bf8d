"""Fault rules in a file: TOML, as the other files of the command, so that it takes no further package.

::

    [[fault]]
    api = "Fetch"
    topic = "orders"
    error = "NOT_LEADER_OR_FOLLOWER"
    count = 3
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.layers.faults.rule import FaultError
from purgatorio.broker.layers.faults.toxic import AnyFault, parse_fault


def read_rules(path: Path) -> list[AnyFault]:
    """Return the rules of a file, in its order.

    Raises:
        FaultError: the file cannot be read, or a rule in it cannot be; the message names the file, and the rule by its
            place.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FaultError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    for name in content:
        if name != "fault":
            raise FaultError(f"{path}: there is no {name!r} in a file of fault rules{nearest(name, ['fault'])}")
    tables = content.get("fault", [])
    if not isinstance(tables, list):
        raise FaultError(f"{path}: begin each rule with [[fault]], in double brackets")
    return parse_rules(tables, str(path))


def parse_rules(tables: Iterable[object], source: str, *, functions: bool = False, first: int = 1) -> list[AnyFault]:
    """Return the rules that these tables describe, in their order.

    Args:
        source: where they are from, for messages.
        functions: whether values may be functions, as in Python.
        first: the place of the first one.

    Raises:
        FaultError: a rule cannot be; the message has the source, and the rule's place in it.
    """
    rules = []
    for place, table in enumerate(tables, start=first):
        try:
            if not isinstance(table, Mapping):
                raise FaultError("a rule must have names and values, such as api and error")
            rules.append(parse_fault(table, functions=functions))
        except FaultError as error:
            raise FaultError(f"{source}: rule {place}: {error}") from None
    return rules
