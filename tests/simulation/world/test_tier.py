"""The simulated object store: its calls take time, fail, are done late, and lie, as it is told to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator

import pytest

from purgatorio.broker.tier.store import Exists, NotThere, Refused, Unavailable
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.tier import LATE_MS, SimulatedTier, TierLink


class Tier:
    """A store, and the link of one node to it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.tier = SimulatedTier(loop, random.Random(1))
        self.node = loop.node("broker-1")
        self.link: TierLink = self.tier.open(self.node)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def as_coroutine() -> None:
            await main()

        self.loop.run_until_complete(as_coroutine())

    async def failures(self, call: Callable[[int], Awaitable[object]], count: int = 30) -> list[str]:
        """Make so many calls; return how each has ended."""
        found = []
        for number in range(count):
            try:
                await call(number)
            except (Unavailable, Refused) as error:
                found.append(type(error).__name__)
            else:
                found.append("")
        return found


@pytest.fixture
def tier() -> Iterator[Tier]:
    loop = SimulatedLoop(random.Random(1))
    yield Tier(loop)
    loop.close()


def test_it_keeps_what_is_put_for_all_nodes(tier: Tier) -> None:
    async def main() -> None:
        began = tier.loop.time()
        await tier.link.put("a/1", [b"one", b"two"], create=True)
        assert tier.loop.time() > began
        with pytest.raises(Exists):
            await tier.link.put("a/1", [b"three"], create=True)
        tier.node.kill()
        other = tier.tier.open(tier.loop.node("broker-2"))
        assert await other.get("a/1", 2, 3) == b"etw"
        assert [each.size_bytes for each in await other.list("a/")] == [6]
        await other.delete("a/1")
        with pytest.raises(NotThere):
            await other.get("a/1", 0, 1)
        assert tier.tier.links() == [other]

    tier.run(main)


def test_a_cut_link_fails_calls_or_holds_them_until_it_heals(tier: Tier) -> None:
    async def main() -> None:
        tier.link.cut()
        puts = [asyncio.ensure_future(tier.link.put(f"a/{number}", [b"x"], create=False)) for number in range(20)]
        await asyncio.sleep(5)
        failed = [put for put in puts if put.done()]
        assert 0 < len(failed) < 20
        assert all(isinstance(put.exception(), Unavailable) for put in failed)
        assert tier.tier.objects == {}
        tier.tier.heal()
        await asyncio.wait(puts)
        assert len(tier.tier.objects) == 20 - len(failed)

    tier.run(main)


def test_a_call_that_fails_may_be_done_later(tier: Tier) -> None:
    async def main() -> None:
        tier.tier.errors = 0.5
        ended = await tier.failures(lambda number: tier.link.put(f"a/{number}", [b"x"], create=False), 50)
        tier.node.kill()
        await asyncio.sleep(LATE_MS[1] / 1000)
        assert set(ended) == {"", "Unavailable", "Refused"}
        done = [f"a/{number}" in tier.tier.objects for number in range(50)]
        assert [is_done for is_done, error in zip(done, ended, strict=True) if not error] == [True] * ended.count("")
        assert {is_done for is_done, error in zip(done, ended, strict=True) if error == "Unavailable"} == {True, False}
        assert {is_done for is_done, error in zip(done, ended, strict=True) if error == "Refused"} == {False}

    tier.run(main)


def test_reads_that_lie_are_short_or_have_other_bytes(tier: Tier) -> None:
    async def main() -> None:
        await tier.link.put("a/1", [b"123456"], create=True)
        tier.tier.lies = 0.5
        answers = [bytes(await tier.link.get("a/1", 0, 6)) for _ in range(40)]
        assert {len(answer) == 6 for answer in answers} == {True, False}
        assert len({answer for answer in answers if len(answer) == 6}) > 1
        assert tier.tier.objects == {"a/1": b"123456"}

    tier.run(main)


def test_bytes_that_change_while_they_are_written_are_noticed(tier: Tier) -> None:
    async def main() -> None:
        data = bytearray(b"123")
        put = asyncio.ensure_future(tier.link.put("a/1", [data], create=True))
        await asyncio.sleep(0)
        data[0] = 0
        await put
        assert tier.tier.changed_buffers == ["a/1"]

    tier.run(main)
