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
from pathlib import Path

from purgatorio.broker.faults.names import nearest
from purgatorio.broker.faults.rule import FaultError, Rule, parse_rule


def read_rules(path: Path) -> list[Rule]:
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
    rules = []
    for place, table in enumerate(tables, start=1):
        try:
            rules.append(parse_rule(table))
        except FaultError as error:
            raise FaultError(f"{path}: rule {place}: {error}") from None
    return rules
