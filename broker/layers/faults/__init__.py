"""Faults by rule: a request that matches one is delayed, held, refused, dropped or answered wrongly, on purpose.

Toxics are rules about connections: `toxic.py` is one as data, `stages.py` what each does to bytes, `flow.py` one
direction of a connection; `broker/server/toxic_link.py` stands between a connection and its socket. Rules about calls
of the tier's object store are in `tier_rule.py`; `faulty_store.py` stands before a broker's store.

Rules are data (`rule.py`). `FaultRegistry` (`registry.py`) keeps those of a cluster, and puts itself in front of the
handlers of the APIs that rules are about, and of no other: without rules a request passes no code of this room.
`acting.py` is one request's way through the rules, `matching.py` says whether a rule is about it. Which part of a
request names topics, and how that part is refused, is in `protocol/parts.py`.
"""

from purgatorio.broker.layers.faults.faulty_store import FaultyStore, StoreRules
from purgatorio.broker.layers.faults.live_rule import LiveRule
from purgatorio.broker.layers.faults.registry import AnyLive, FaultRegistry, FaultTarget, FiredFault, TooManyFaults
from purgatorio.broker.layers.faults.rule import FaultError, Rule, parse_rule
from purgatorio.broker.layers.faults.tier_rule import LiveTierRule, TierRule
from purgatorio.broker.layers.faults.toxic import AnyFault, Toxic, parse_fault
from purgatorio.broker.layers.faults.toxic_rule import LiveToxic, Toxics

__all__ = [
    "AnyFault",
    "AnyLive",
    "FaultError",
    "FaultRegistry",
    "FaultTarget",
    "FaultyStore",
    "FiredFault",
    "LiveRule",
    "LiveTierRule",
    "LiveToxic",
    "Rule",
    "StoreRules",
    "TierRule",
    "TooManyFaults",
    "Toxic",
    "Toxics",
    "parse_fault",
    "parse_rule",
]
