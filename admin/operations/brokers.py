"""Operations on brokers: list, hold back, stop, kill, start, add, restart and pause them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations.declare import Answer, Limits, Operation, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_DELAY_MS: Final = 3_600_000
MAX_CONNECTIONS: Final = 1_000
"""Connections that one answer lists."""
MAX_CLIENTS: Final = 10_000
"""Clients that one answer lists."""
_THE_BROKER: Final = "the broker's id"


class ListBrokers(Operation, http="GET /brokers", command="broker list", answered_by="all brokers"):
    """All brokers, running or not, with their epochs and leases."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.members import read_members

        return {"brokers": read_members(operator.cluster, operator.control)}


class ListConnections(
    Operation, http="GET /connections", command="broker connections", answered_by="all brokers", shared_ms=2_000
):
    """Connections of clients and brokers: address, client id, principal, age, requests and bytes."""

    limit: Annotated[int, Limits(ge=0, le=MAX_CONNECTIONS)] = arg(
        f"how many, up to {MAX_CONNECTIONS}", default=MAX_CONNECTIONS
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.members import read_connections

        brokers = operator.cluster.brokers
        count = sum(broker.metrics.connections for broker in brokers)
        shown = islice(read_connections(brokers, self.limit), self.limit)
        return {"connections": list(shown), "connection_count": count}


class ListClients(Operation, http="GET /clients", answered_by="all brokers"):
    """Client ids that are connected, by name, without the brokers' own; a client without one by its address."""

    limit: Annotated[int, Limits(ge=0, le=MAX_CLIENTS)] = arg(f"how many, up to {MAX_CLIENTS}", default=MAX_CONNECTIONS)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.members import connected_clients

        found = connected_clients(operator.cluster.brokers)
        return {"clients": found[: self.limit], "client_count": len(found)}


class ChangeFollower(Operation, http="POST /brokers/{id}/follower", answered_by="its broker"):
    """Hold back the fetches by which this broker follows others."""

    id: int = arg(_THE_BROKER)
    held: bool | None = arg("true: send none", default=None)
    delay_ms: Annotated[int, Limits(ge=0, le=MAX_DELAY_MS)] | None = arg(
        f"wait so long after records came, 0 to {MAX_DELAY_MS}", default=None
    )

    def check(self) -> None:
        if self.held is None and self.delay_ms is None:
            raise ValueError("give held, delay_ms, or both")

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.state import read_follower

        broker = operator.running(self.id)
        if self.delay_ms is not None:
            broker.gate.delay_ms = self.delay_ms
        if self.held is not None:
            (broker.gate.hold if self.held else broker.gate.release)()
        return {"broker": broker.broker_id, **read_follower(broker)}


class StopBroker(
    Operation,
    http="POST /brokers/{id}/stop",
    command="broker stop",
    says="broker {id} is stopped",
    answered_by="supervisor",
):
    """Stop a broker in good order; the records in its memory are lost."""

    id: int = arg(_THE_BROKER, metavar="N")
    force: bool = arg(
        "true: even if it is the last in-sync replica of partitions; their records are lost", default=False
    )

    async def run(self, operator: Operator) -> Answer:
        await operator.control.stop_broker(operator.known(self.id), force=self.force)
        return {"broker": self.id, "state": "stopped"}


class KillBroker(
    Operation,
    http="POST /brokers/{id}/kill",
    command="broker kill",
    says="broker {id} was killed; the others notice when its lease ends",
    answered_by="supervisor",
):
    """End a broker without unregistering it: the others notice when its lease runs out."""

    id: int = arg(_THE_BROKER, metavar="N")

    async def run(self, operator: Operator) -> Answer:
        await operator.control.kill_broker(operator.known(self.id))
        return {"broker": self.id, "state": "killed"}


class StartBroker(
    Operation,
    http="POST /brokers/{id}/start",
    command="broker start",
    says="broker {id} is running and catches up with the leaders",
    answered_by="supervisor",
):
    """Start a broker with empty logs; answers when it is registered."""

    id: int = arg(_THE_BROKER, metavar="N")

    async def run(self, operator: Operator) -> Answer:
        await operator.control.start_broker(operator.known(self.id))
        return {"broker": self.id, "state": "running"}


class AddBroker(
    Operation,
    http="POST /brokers",
    command="broker add",
    says="broker {broker} is running; new topics may have replicas there",
    answered_by="nobody",
):
    """Start one more broker, of which clients learn by their metadata; answers when all brokers know it."""

    rack: Annotated[str, Limits(min_length=1, max_length=249)] | None = arg(
        "its rack; the next one of the setting racks if it is not given", default=None
    )

    async def run(self, operator: Operator) -> Answer:
        """Start it; it lives until the cluster is reset."""
        from purgatorio.broker.cluster.decisions import until

        added, network = await operator.control.add_broker(self.rack), operator.cluster.network
        await until(lambda: all(added in each.image.brokers for each in network.brokers), f"all know broker {added}")
        return {"broker": added, "state": "running"}


class RestartBrokers(Operation, http="POST /brokers/restart", answered_by="nobody"):
    """Restart all brokers in turn, each when all partitions are in sync again; answers after the last."""

    async def run(self, operator: Operator) -> Answer:
        await operator.control.restart_brokers()
        return {"brokers": [member.broker_id for member in operator.control.members], "state": "running"}


class PauseBroker(
    Operation,
    http="POST /brokers/{id}/pause",
    command="broker pause",
    says="broker {id} stands still; the others notice when its lease ends",
    answered_by="supervisor",
):
    """Let a broker stand still, as SIGSTOP does; the others notice when its lease runs out."""

    id: int = arg(_THE_BROKER, metavar="N")

    async def run(self, operator: Operator) -> Answer:
        operator.cluster.network.pause(operator.known(self.id))
        return operator.cluster.network.state()


class ResumeBroker(Operation, http="POST /brokers/{id}/resume", answered_by="supervisor"):
    """Let a paused broker go on."""

    id: int = arg(_THE_BROKER)

    async def run(self, operator: Operator) -> Answer:
        operator.cluster.network.resume(operator.known(self.id))
        return operator.cluster.network.state()


class ResumeBrokers(Operation, http="POST /brokers/resume", answered_by="supervisor"):
    """Let all paused brokers go on."""

    async def run(self, operator: Operator) -> Answer:
        operator.cluster.network.resume(None)
        return operator.cluster.network.state()
