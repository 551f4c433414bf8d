"""A client that writes in transactions, and may leave one open."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from purgatorio.admin.learn.clients.client import Client, Stage
from purgatorio.client.client import check
from purgatorio.client.produce import batch_of, produce, produce_request
from purgatorio.client.transaction import TransactionalId
from purgatorio.protocol.errors import ErrorCode

LOOK_MS: Final = 20


class Transactional(Client):
    """Writes a record to partition 0 of a topic in each of its transactions, and commits it.

    Args:
        every_ms: the time from a commit to the next transaction.
        leaves_open: whether it leaves its first transaction open.
        timeout_ms: how long one may be open: longer than a reader looks at it.

    Facts: `commits`; `epoch`, that of its producer; `last`, what became of the latest record: "written", or the name of
    an error; `state`, "open" or "committed".
    """

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        topic: str,
        transactional_id: str,
        every_ms: int = 300,
        leaves_open: bool = False,
        timeout_ms: int = 60 * 60_000,
    ) -> None:
        super().__init__(stage, name)
        self._tp = topic, 0
        self._every_ms = every_ms
        self._leaves_open = leaves_open
        self._new_id = partial(TransactionalId, self, transactional_id, timeout_ms=timeout_ms)
        self._id = self._new_id()
        self._begun = asyncio.Event()
        self.facts.update(commits=0, epoch=-1, last="", state="")

    async def live(self) -> None:
        self._id = self._new_id()
        check(await self._id.initialize())
        self.facts["epoch"] = self._id.producer[1]
        while True:
            check(await self._id.add([self._tp]))
            self.facts["state"] = "open"
            check(await self._write())
            self._begun.set()
            while self._leaves_open:
                await self.sleep(LOOK_MS)
            code, _ = await self._id.until_taken(self._id.end_request(committed=True))
            check(code)
            self.facts["commits"] = int(self.facts["commits"]) + 1
            self.facts["state"] = "committed"
            due_ms = self.now_ms + self._every_ms
            while self.now_ms < due_ms and not self._leaves_open:
                await self.sleep(LOOK_MS)

    # --- commands of steps ---

    async def leave_open(self) -> None:
        """Leave the next transaction open, after its first record."""
        self._leaves_open = True

    async def commit(self) -> None:
        """Commit what was left open, and go on."""
        self._leaves_open = False

    async def write(self) -> None:
        """Write one more record in the transaction that was left open, whatever has become of it."""
        await self._begun.wait()
        await self._write()

    async def _write(self) -> ErrorCode:
        batch = batch_of(
            [self.name.encode()],
            self.clock.wall_ms(),
            producer=self._id.producer,
            sequence=self._id.next_sequence(self._tp, 1),
            transactional=True,
        )
        attempt = await produce(
            self, self._tp, lambda: produce_request(self._tp, batch, transactional_id=self._id.name)
        )
        self.facts["last"] = attempt.code.name if attempt.code else "written"
        return attempt.code
