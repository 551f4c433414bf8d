"""Parses fault rules, about requests or connections, from a test, a file or an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping

from purgatorio.broker.layers.faults.rule import Rule, parse_rule
from purgatorio.broker.layers.faults.toxic import Toxic, parse_toxic

AnyFault = Rule | Toxic
"""A rule about requests, or about connections."""


def parse_fault(data: Mapping[str, object], *, functions: bool = False) -> AnyFault:
    """Return the rule that these names and values describe: with "toxic", one about connections.

    Args:
        functions: whether values may be functions, as in Python.

    Raises:
        FaultError: see `parse_rule` and `parse_toxic`.
    """
    return parse_toxic(data) if data.get("toxic") is not None else parse_rule(data, functions=functions)
