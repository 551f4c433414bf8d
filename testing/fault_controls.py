"""The part of `Kafka` that is about faults: rules for requests, bad networks, hidden brokers, the log of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from purgatorio.testing.broker_controls import BrokerControls
from purgatorio.testing.faults import Fault, requests

if TYPE_CHECKING:
    from purgatorio.testing.keywords import FaultRule, ToxicRule
    from purgatorio.testing.values import Request


class FaultControls(BrokerControls):
    """Adds and lists fault rules, and lists the last requests."""

    def fault(self, **rule: Unpack[FaultRule]) -> Fault:
        """Add a fault rule: what shall be done to which requests; see `purgatorio.broker.layers.faults.rule.Rule`.

        ::

            kafka.fault(api="Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER", count=3)
            kafka.fault(api="Produce", client="billing", disconnect="after", nth=2)
            kafka.fault(api="Fetch", replica=3, delay_ms=200)     # replication to broker 3
            held = kafka.fault(api="OffsetCommit", group="billing", hold=True)

        What is absent matches any request; requests between brokers only if `replica` asks for them. The newest rule
        that matches acts, and no other. Functions (`when`, `reply`) are called in the cluster's thread, with the
        request message. Rules are gone at the cluster's end, and by `reset`, but for those of ``cluster(faults=[…])``.

        Raises:
            ValueError: a name or a value is unknown, in which case the nearest one is named; or the rule can match no
                request, or does nothing.
        """
        from purgatorio.broker.layers.faults import parse_fault

        parsed = parse_fault(rule, functions=True)
        live = self._call(lambda: self._controls.cluster.faults.add(parsed), f"add the fault {parsed}")
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

        It runs, replicates and leads on. What a client knows already it keeps, until it asks again. It is a fault rule:
        ``kafka.hide(2).remove()`` shows the broker again, and so does the end of ``with kafka.hide(2):``.

        Raises:
            ValueError: there is no broker of that id.
        """
        known = self._call(lambda: list(self._controls.cluster.broker_ids), "list the brokers")
        if broker not in known:
            raise ValueError(f"there is no broker {broker}, only {', '.join(map(str, known))}")
        return self.fault(hide=broker)

    @property
    def faults(self) -> list[Fault]:
        """The fault rules, oldest first."""
        rules, first = self._call(
            lambda: (self._controls.cluster.faults.rules, self._controls.faults_at_start), "list the faults"
        )
        return [Fault(self._thread, each, at_start=each in first) for each in rules]

    def clear_faults(self) -> None:
        """Remove all fault rules; requests that they hold go on."""
        from purgatorio.broker.operations.faults import ClearFaults

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
        return self._call(lambda: requests(self._controls.cluster.faults, name, client, topic), "list the requests")
