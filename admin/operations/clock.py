"""Operations on the brokers' time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Self

from purgatorio.admin.operations.declare import Answer, Limits, Operation, arg
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.time import MAX_ADVANCE_SECONDS

if TYPE_CHECKING:
    from purgatorio.admin.operations.control.clock_control import EndedOperation
    from purgatorio.admin.operations.operator import Operator

ENDED_SHOWN: Final = 1_000
"""Operations that one answer lists, unless more are asked for."""
MAX_ENDED: Final = 10_000


class EndedRow(NamedTuple):
    """An operation whose time was over.

    Attributes:
        missing: a sentence: what it still waited for.
        causes: the same as data; no document has it.
    """

    broker: int
    purgatory: str
    client: str
    keys: tuple[str, ...]
    missing: str
    waited_ms: int
    causes: tuple[Any, ...] = ()

    @classmethod
    def of(cls, ended: EndedOperation) -> Self:
        """Return the row of an operation."""
        operation = ended.operation
        keys, waited_ms = tuple(map(str, operation.keys)), operation.done_ms - operation.parked_ms
        words, causes = in_words(operation.causes), tuple(operation.causes)
        return cls(ended.broker_id, operation.purgatory, operation.client, keys, words, waited_ms, causes)

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON."""
        shown = self._asdict()
        del shown["causes"]
        return {**shown, "keys": list(self.keys)}


class ShowClock(Operation, http="GET /clock", command="clock show"):
    """The brokers' time, and whether it can be moved or stands still."""

    async def run(self, operator: Operator) -> Answer:
        return operator.clock.state()


class AdvanceClock(Operation, http="POST /clock/advance", command="clock advance", answered_by="all brokers"):
    """Move the brokers' time forward; answers with the operations whose time was over."""

    seconds: Annotated[float, Limits(ge=0, le=MAX_ADVANCE_SECONDS, finite=True)] = arg("how far", positional=True)
    sessions: bool = arg("true: also for members of groups, which cannot send heartbeats at that pace", default=False)

    limit: Annotated[int, Limits(ge=0, le=MAX_ENDED)] = arg(
        f"how many operations to list, up to {MAX_ENDED}", default=ENDED_SHOWN
    )

    async def run(self, operator: Operator) -> Answer:
        ended = await self.read(operator)
        return {
            **operator.clock.state(),
            "ended_count": len(ended),
            "ended": [each.as_document() for each in ended[: self.limit]],
        }

    async def read(self, operator: Operator) -> list[EndedRow]:
        """Move it; return all that ended, with causes as objects."""
        return [EndedRow.of(each) for each in await operator.clock.advance(self.seconds, sessions=self.sessions)]

    @staticmethod
    def parsed(answer: Answer) -> list[EndedRow]:
        """Return the operations of an answer."""
        return [EndedRow(**{**each, "keys": tuple(each["keys"])}) for each in answer["ended"]]


class FreezeClock(Operation, http="POST /clock/freeze", command="clock freeze", answered_by="all brokers"):
    """Stop the brokers' time."""

    async def run(self, operator: Operator) -> Answer:
        operator.clock.clock.freeze()
        return operator.clock.state()


class UnfreezeClock(Operation, http="POST /clock/unfreeze", command="clock unfreeze", answered_by="all brokers"):
    """Let the brokers' time go on."""

    async def run(self, operator: Operator) -> Answer:
        operator.clock.clock.unfreeze()
        return operator.clock.state()
