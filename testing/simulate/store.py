"""A database of the world: it outlives the services that write to it, and takes nothing from one that was killed."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from purgatorio.simulation.world.loop import current_node
from purgatorio.simulation.world.network import name_of
from purgatorio.testing.simulate.journal import Journal

T = TypeVar("T")

LATENCY_MS: Final = (0.2, 3.0)
"""The range that the way to the store and the way back are drawn from."""


class Table:
    """Rows that services write. Each call takes virtual time, on its way there and back.

    So a service can be killed before its row is stored, and after that, before it knows.

    Attributes:
        changes: the number of writes so far.
    """

    def __init__(self, name: str, journal: Journal, rng: random.Random) -> None:
        self.name = name
        self.changes = 0
        self._journal = journal
        self._rng = rng
        self._rows: dict[Any, Any] = {}
        self._appended = 0

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self._rows)} rows>"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> list[Any]:
        """The values, in the order in which their keys came."""
        return list(self._rows.values())

    async def append(self, value: Any) -> None:
        """Add a row, whatever is there already: a value that is appended twice is there twice.

        Raises:
            ConnectionError: the process was killed.
        """

        def add() -> None:
            self._appended += 1
            self._rows[_Appended(self._appended)] = value
            self._changed(f"append {value!r} to {self.name}")

        await self._call(add)

    async def put(self, key: Any, value: Any) -> None:
        """Set the row of a key: a value that is put twice is there once.

        Raises:
            ConnectionError: the process was killed.
        """

        def put() -> None:
            self._rows[key] = value
            self._changed(f"put {key!r} to {self.name}")

        await self._call(put)

    async def get(self, key: Any, default: Any = None) -> Any:
        """Return the row of a key, or the default.

        Raises:
            ConnectionError: the process was killed.
        """
        return await self._call(lambda: self._rows.get(key, default))

    def _changed(self, text: str) -> None:
        self.changes += 1
        self._journal.record(name_of(current_node()), "stored", text)

    async def _call(self, work: Callable[[], T]) -> T:
        await self._travel()
        result = work()
        await self._travel()
        return result

    async def _travel(self) -> None:
        refuse_the_dead()
        await asyncio.sleep(self._rng.uniform(*LATENCY_MS) / 1000)
        refuse_the_dead()


class _Appended(int):
    """The key of an appended row: equal to none that a service puts."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return int(self)


class Store:
    """The tables of a world: ``world.store["bills"]`` is there as soon as it is asked for."""

    def __init__(self, journal: Journal, rng: random.Random) -> None:
        self._journal = journal
        self._rng = rng
        self._tables: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, self._journal, self._rng)
        return table

    @property
    def changes(self) -> int:
        """The number of writes to all tables."""
        return sum(table.changes for table in self._tables.values())


def refuse_the_dead() -> None:
    """Do nothing for a living process.

    Raises:
        ConnectionError: the current process was killed; what its `finally` blocks do must not reach the world.
    """
    node = current_node()
    if node is not None and not node.alive:
        raise ConnectionError(errno.ENETDOWN, f"{node.name} was killed")
