"""The part of `Kafka` that is about faults: rules for requests, bad networks, hidden brokers, the log of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from purgatorio.testing.broker_controls import BrokerControls
from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.values import Request
from purgatorio.testing.waiting import WAIT_SECONDS, Waiting, first

if TYPE_CHECKING:
    from purgatorio.broker.layers.faults import AnyLive, FaultRegistry
    from purgatorio.testing.keywords import FaultRule, ToxicRule

T = TypeVar("T")

"""The time between two looks at a rule's counts."""


class Fault:
    """A fault rule of a cluster; may be used from any thread, and as a context manager, which removes it at its end.

    Attributes:
        at_start: whether the cluster began with it (``cluster(faults=[…])``).
    """

    def __init__(self, thread: LoopThread, rule: AnyLive, *, at_start: bool = False) -> None:
        self._thread = thread
        self._rule = rule
        self.at_start = at_start

    def __repr__(self) -> str:
        return f"<Fault {self.id}: {self._rule.rule}>"

    def __str__(self) -> str:
        """The rule, in one line."""
        return str(self._rule.rule)

    @property
    def id(self) -> int:
        """Its number, unique within the cluster."""
        return self._rule.id

    @property
    def matched(self) -> int:
        """The requests that matched, whether or not the rule acted on them."""
        return self._call(lambda: self._rule.matched, "count what it matched")

    @property
    def fired(self) -> int:
        """The requests that the rule acted on, or for one that observes, counted."""
        return self._call(lambda: self._rule.fired, "count what it fired")

    @property
    def held(self) -> int:
        """The requests that the rule holds now."""
        return self._call(lambda: self._rule.held, "count what it holds")

    def until_fired(self, times: int = 1, *, timeout_seconds: float = WAIT_SECONDS) -> Waiting[int]:
        """Wait, with ``await`` or ``.wait()``, until the rule has fired so often; the result is how often it has."""

        fired = first(lambda: self._rule.fired, lambda seen: seen >= times)
        what = f"fault {self.id} ({self}) to fire {times} times"
        return Waiting(self._thread.start(fired, what), what, timeout_seconds)

    def release(self) -> None:
        """Hold no more: the requests that the rule holds go on, and it is removed."""
        self._call(self._rule.release, f"release what {self!r} holds")

    def remove(self) -> None:
        """Remove the rule; requests that it holds go on. May be called again."""
        self._call(self._rule.release, f"remove {self!r}")

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def _call(self, function: Callable[[], T], doing: str) -> T:
        return self._thread.call(function, doing)


class FaultControls(BrokerControls):
    """Adds and lists fault rules, and lists the last requests."""

    def fault(self, **rule: Unpack[FaultRule]) -> Fault:
        """Add a fault rule: an action on matching requests; see `purgatorio.broker.layers.faults.rule.Rule`.

        ::

            kafka.fault(api="Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER", count=3)
            kafka.fault(api="Produce", client="billing", disconnect="after", nth=2)
            kafka.fault(api="Fetch", replica=3, delay_ms=200)     # replication to broker 3
            held = kafka.fault(api="OffsetCommit", group="billing", hold=True)

        An absent field matches any request; requests between brokers only if `replica` asks for them. The newest rule
        that matches acts, and no other. Functions (`when`, `reply`) are called in the cluster's thread, with the
        request message. Rules are gone at the cluster's end, and by `reset`, but for those of ``cluster(faults=[…])``.

        Raises:
            ValueError: a name or a value is unknown, in which case the nearest one is named; or the rule can match no
                request, or does nothing.
        """
        from purgatorio.broker.layers.faults import parse_fault

        parsed = parse_fault(rule, functions=True)
        added = self._call(lambda: self._cluster.faults.add(parsed), f"add the fault {parsed}")
        live = cast("AnyLive", added)
        return Fault(self._thread, live)

    def network(self, toxic: str, **toxic_is: Unpack[ToxicRule]) -> Fault:
        """Make the network between clients and brokers bad, with a toxic (`broker/layers/faults/toxic.py`).

        ::

            kafka.network("latency", latency_ms=100, jitter_ms=20, client="billing")
            kafka.network("bandwidth", rate_kb=64, stream="upstream", broker=2)
            kafka.network("reset_peer", toxicity=0.5)
            kafka.network("timeout", replica=3)                   # broker 3 hears nothing of its leaders

        The names are Toxiproxy's, with units. It acts on connections that are open and on new ones; on those between
        brokers only if `replica` asks for them. It is a fault rule: listed in `faults`, counted by connections, and
        gone by `remove`, `clear_faults` and `reset`. Its time is the brokers', so that `clock.advance` moves it.

        Raises:
            ValueError: a name or a value is unknown, in which case the nearest one is named; or the toxic does nothing.
        """
        return self.fault(toxic=toxic, **toxic_is)

    def hide(self, broker: int) -> Fault:
        """Leave a broker out of the answers to Metadata and DescribeCluster: clients that ask do not learn of it.

        It runs, replicates and leads on. A client keeps its metadata until it asks again. It is a fault rule:
        ``kafka.hide(2).remove()`` shows the broker again, and so does the end of ``with kafka.hide(2):``.

        Raises:
            ValueError: there is no broker of that id.
        """
        known = self._call(lambda: list(self._cluster.broker_ids), "list the brokers")
        if broker not in known:
            raise ValueError(f"there is no broker {broker}, only {', '.join(map(str, known))}")
        return self.fault(hide=broker)

    @property
    def faults(self) -> list[Fault]:
        """The fault rules, oldest first."""
        rules, first = self._call(self._backend.fault_rules, "list the faults")
        return [Fault(self._thread, each, at_start=each in first) for each in rules]

    def clear_faults(self) -> None:
        """Remove all fault rules; requests that they hold go on."""
        from purgatorio.admin.operations.faults import ClearFaults

        self.do(ClearFaults())

    def requests(self, *, api: str | None = None, client: str | None = None, topic: str | None = None) -> list[Request]:
        """Return the last requests of clients, oldest first, to assert on: at most 1,000 are kept.

        Args:
            api: of this API only, as Kafka spells it: "OffsetCommit".
            client: of this client id only.
            topic: that name this topic.

        Raises:
            ValueError: there is no such API; the nearest one is named.
        """
        from purgatorio.broker.layers.faults.rule import known_api

        name = None if api is None else known_api(api)
        return self._call(lambda: _requests(self._cluster.faults, name, client, topic), "list the requests")


def _requests(faults: FaultRegistry, api: str | None, client: str | None, topic: str | None) -> list[Request]:
    """Return the recorded requests of that description, oldest first; runs in the cluster's loop."""
    entries = faults.log.entries if faults.log is not None else ()
    return [
        Request(
            each.number,
            each.at_ms,
            each.broker,
            each.api,
            each.version,
            each.client,
            each.topics,
            each.ended,
            each.ended_ms - each.at_ms if each.ended_ms >= 0 else None,
            each.errors,
        )
        for each in entries
        if (api is None or each.api == api)
        and (client is None or each.client == client)
        and (topic is None or topic in each.topics)
    ]
