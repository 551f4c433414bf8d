"""A toxic as data: what a bad network does to connections. The names are those of Toxiproxy, with units.

The names are the same in Python, in HTTP's JSON, on the command line and in files::

    {"toxic": "latency", "latency_ms": 100, "jitter_ms": 20, "client": "billing"}

A toxic is a fault rule about connections instead of requests. It acts at the broker's end, on those of clients; on
connections between brokers only if `replica` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.layers.faults.rule import MAX_DELAY_MS, MAX_TEXT, FaultError, Rule, parse_rule
from purgatorio.broker.layers.faults.tier_rule import TierRule, parse_tier_rule
from purgatorio.late import dataclass

MAX_BYTES: Final = 2**40
_DELAY: Final = (0, MAX_DELAY_MS)

TOXICS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "latency": {"latency_ms": _DELAY, "jitter_ms": _DELAY},
    "bandwidth": {"rate_kb": (1, 10**9)},
    "slow_close": {"delay_ms": (1, MAX_DELAY_MS)},
    "timeout": {"timeout_ms": _DELAY},
    "reset_peer": {"timeout_ms": _DELAY},
    "slicer": {"average_size_bytes": (1, MAX_BYTES), "size_variation_bytes": (0, MAX_BYTES), "delay_ms": _DELAY},
    "limit_data": {"limit_bytes": (0, MAX_BYTES)},
}
"""The toxics with their parameters: whole numbers from and up to these."""
NEEDED: Final = ("rate_kb", "average_size_bytes", "limit_bytes")
"""The parameters without a default; all others are 0 if they are absent."""
STREAMS: Final = ("downstream", "upstream")


TOXIC_WORDS: Final = {
    "toxic": "a rule about connections instead: latency, bandwidth, slow_close, timeout, reset_peer, slicer or "
    "limit_data",
    "stream, toxicity, client, broker, replica": "downstream or upstream, a share, and which connections",
    "latency_ms, jitter_ms, rate_kb, delay_ms, timeout_ms": "what the toxic is told",
    "average_size_bytes, size_variation_bytes, limit_bytes": "what the toxic is told",
}
"""The meanings of the names, for the list of the HTTP API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """A toxic; see `parse_toxic`. The numbers that its kind does not have are None.

    Attributes:
        toxic: what it does:
            "latency" delays bytes by `latency_ms`, and up to `jitter_ms` more or less;
            "bandwidth" lets `rate_kb` pass a second, in 1,000 bytes;
            "slow_close" closes a connection `delay_ms` later;
            "timeout" loses all bytes, and closes the connection after `timeout_ms`; 0: never, until it is removed;
            "reset_peer" resets the connection (TCP's RST) after `timeout_ms`;
            "slicer" cuts bytes into pieces of `average_size_bytes`, up to `size_variation_bytes` more or less, with
            `delay_ms` between them;
            "limit_data" closes the connection when `limit_bytes` have passed.
        stream: "downstream" for bytes to the client, "upstream" for bytes to the broker.
        toxicity: the share of the connections; drawn from the cluster's seed.
        client: a client id; a connection has that of its first request.
        broker: the id of the broker that is connected to.
        replica: the id of the broker that connects, to fetch from the other for one.
        name: a name for lists and reports.
    """

    toxic: str
    stream: str = "downstream"
    toxicity: float = 1.0
    client: str | None = None
    broker: int | None = None
    replica: int | None = None
    latency_ms: int | None = None
    jitter_ms: int | None = None
    rate_kb: int | None = None
    delay_ms: int | None = None
    timeout_ms: int | None = None
    average_size_bytes: int | None = None
    size_variation_bytes: int | None = None
    limit_bytes: int | None = None
    name: str = ""

    def number(self, name: str) -> int:
        """Return one of its numbers; 0 if it was absent."""
        return getattr(self, name) or 0

    def as_data(self) -> dict[str, Any]:
        """Return the attributes that the toxic sets."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in told.items() if value != _DEFAULTS[name]}

    def __str__(self) -> str:
        """The toxic in one line: ``toxic=latency client=billing latency_ms=100``."""
        return " ".join(f"{name}={value}" for name, value in self.as_data().items())


_DEFAULTS: Final = {each.name: each.default for each in fields(Toxic)}


def parse_toxic(data: Mapping[str, object]) -> Toxic:
    """Return the toxic that these names and values describe; a value of None is as if it were absent.

    Raises:
        FaultError: a name or a value is unknown, in which case the nearest one is named; or the toxic does nothing.
    """
    kind = data.get("toxic")
    if not isinstance(kind, str):
        raise FaultError(f"a toxic is given by its name: {', '.join(TOXICS)}")
    if kind not in TOXICS:
        raise FaultError(f"there is no toxic {kind!r}{nearest(kind, TOXICS) or ', only ' + ', '.join(TOXICS)}")
    numbers = TOXICS[kind]
    known = ("toxic", "stream", "toxicity", "client", "broker", "replica", "name", *numbers)
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            raise FaultError(f"the toxic {kind!r} has no {name!r}{nearest(name, known)}")
        if value is not None:
            values[name] = _value(name, value, numbers)
    if missing := [name for name in NEEDED if name in numbers and name not in values]:
        raise FaultError(f"the toxic {kind!r} needs {missing[0]}")
    toxic = Toxic(**values)
    if kind in ("latency", "slow_close") and not any(toxic.number(name) for name in numbers):
        raise FaultError(f"the toxic {kind!r} does nothing; give {next(iter(numbers))}")
    if toxic.replica is not None and toxic.client is not None:
        raise FaultError("give 'replica' or 'client', not both: brokers have client ids of their own")
    return toxic


def _value(name: str, value: object, numbers: Mapping[str, tuple[int, int]]) -> object:
    if name == "toxicity":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise FaultError("'toxicity' must be a number above 0, of at most 1")
        return float(value)
    if name in ("toxic", "stream", "client", "name"):
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise FaultError(f"{name!r} must be text of at most {MAX_TEXT} letters")
        if name == "stream" and value not in STREAMS:
            raise FaultError("'stream' must be upstream or downstream")
        return value
    least, most = numbers.get(name, (0, 2**31 - 1))
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FaultError(f"{name!r} must be a whole number from {least} to {most}")
    return value


AnyFault = Rule | Toxic | TierRule
"""A rule about requests, connections, or calls of the tier's object store."""


def parse_fault(data: Mapping[str, object], *, functions: bool = False) -> AnyFault:
    """Return the rule that these names and values describe: with "toxic", one about connections; with "tier", one about
    calls of the tier's object store.

    Args:
        functions: whether values may be functions, as in Python.

    Raises:
        FaultError: see `parse_rule`, `parse_toxic` and `parse_tier_rule`.
    """
    if data.get("toxic") is not None:
        return parse_toxic(data)
    return parse_tier_rule(data) if data.get("tier") is not None else parse_rule(data, functions=functions)
