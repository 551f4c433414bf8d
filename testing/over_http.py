"""A cluster whose brokers are processes: operations go through the supervisor's admin HTTP, as a user's do.

Methods that need the brokers' objects in the test's own process raise an error that says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NoReturn, TypeVar, cast

from purgatorio.admin.cli.processes.supervised import ProcessFailed
from purgatorio.admin.cli.processes.supervisor import Supervisor
from purgatorio.admin.operations.declare import Answer, Operation, Readable
from purgatorio.admin.operations.records import ReadRecords
from purgatorio.admin.operations.topics import ShowTopic
from purgatorio.admin.web.forwarding import ForwardedRequest, ask
from purgatorio.admin.web.front import Front
from purgatorio.broker.cluster.errors import TimedOut
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.layers.faults import AnyLive
from purgatorio.protocol.record import Record
from purgatorio.testing.options import ONE_PROCESS
from purgatorio.testing.timeline import Timeline

R = TypeVar("R")

REFUSED: Final = f"{ONE_PROCESS}: start the cluster without processes=True"
LOOPBACK: Final = "127.0.0.1"


class OverHttp:
    """Does operations on brokers that are processes. All methods run in the loop of the supervisor.

    Attributes:
        timeline: the last changes of leaders and in-sync replicas.
    """

    def __init__(self, supervisor: Supervisor, front: Front) -> None:
        self._supervisor = supervisor
        self._front = front
        self.timeline = Timeline(supervisor.clock)

    @classmethod
    async def start(cls, config: ClusterConfig) -> OverHttp:
        """Start the processes; a RuntimeError if a broker does not start."""
        if "log_level" not in config.model_fields_set:
            config = config.model_copy(update={"log_level": "warning"})  # it is the test's standard error
        supervisor = Supervisor(config, records_requests=True)
        backend = cls(supervisor, front := Front(supervisor))
        try:
            await asyncio.to_thread(Front.load)  # other clusters of the thread go on
            await front.start(LOOPBACK, 0)
            await supervisor.start(front.token)
        except ProcessFailed as error:
            await backend.end()
            raise RuntimeError(f"the Kafka cluster did not start: {error}") from error
        except BaseException:
            await backend.end()
            raise
        backend.timeline.follow(supervisor.store)
        return backend

    async def end(self) -> None:
        """End all processes in good order."""
        await self._front.stop()
        await self._supervisor.stop()

    @staticmethod
    def load(operations: Iterable[type[Operation]]) -> None:
        """The brokers' processes have loaded what operations import."""

    async def ask(self, operation: Operation) -> Answer:
        """Do an operation, and return its answer; raises as `Backend.ask`."""
        if operation.answered_by == "nobody":
            raise ValueError(REFUSED)
        target, body = operation.request(operation.given())
        host, port = self._front.address
        headers = {"content-type": "application/json", "host": f"{host}:{port}"}
        text = "" if operation.method == "GET" else json.dumps(body)
        app = self._front.app
        assert app is not None, "it was started"
        reply = await ask(app, ForwardedRequest(operation.method, f"/api/v1/{target}", headers, text))
        answer: Answer = json.loads(reply.body)
        if reply.status >= 400:
            raise (TimeoutError if reply.refusal == TimedOut.__name__ else ValueError)(answer["error"])
        return answer

    async def read(self, operation: Readable[R]) -> list[R]:
        """Return what an operation reads; raises as `ask`. Records come by partitions and pages, others at once."""
        reading: object = operation
        if isinstance(reading, ReadRecords):
            return cast("list[R]", await self._pages(reading))
        assert isinstance(reading, Operation)
        return operation.parsed(await self.ask(reading))

    async def _pages(self, reading: ReadRecords) -> list[tuple[int, Sequence[Record]]]:
        count = (await self.ask(ShowTopic(reading.topic)))["partition_count"]
        pages: list[tuple[int, Sequence[Record]]] = []
        for index in range(max(1, count)) if reading.partition is None else (reading.partition,):
            page: ReadRecords | None = replace(reading, partition=index)
            while page is not None:
                answer = await self.ask(page)
                pages += [(index, tuple(records)) for index, records in page.parsed(answer)]
                page = replace(page, offset=pages[-1][1][-1].offset + 1) if answer["more"] else None
        return pages

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between."""
        return ",".join(f"{each.endpoints[0].host}:{each.endpoints[0].port}" for each in self._supervisor.brokers)

    async def admin_url(self) -> str:
        """Return the URL of the admin HTTP."""
        return self._front.url

    # --- for brokers in the test's own process ---

    @property
    def cluster(self) -> NoReturn:
        """Refuse: there is no such object."""
        raise ValueError(REFUSED)

    def fault_rules(self) -> tuple[Sequence[AnyLive], Sequence[AnyLive]]:
        """Return the fault rules, of which there are none."""
        return (), ()
