"""Operations on the brokers' time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from purgatorio.admin.operations.declare import Answer, Limits, Operation, arg
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.time import MAX_ADVANCE_SECONDS

if TYPE_CHECKING:
    from purgatorio.admin.operations.control.clock_control import EndedOperation
    from purgatorio.admin.operations.operator import Operator

ENDED_SHOWN: Final = 1_000
"""Operations that one answer lists."""


class ShowClock(Operation, http="GET /clock", command="clock show"):
    """The brokers' time, and whether it can be moved or stands still."""

    async def run(self, operator: Operator) -> Answer:
        return operator.clock.state()


class AdvanceClock(Operation, http="POST /clock/advance", command="clock advance", answered_by="all brokers"):
    """Move the brokers' time forward; answers with the operations whose time was over."""

    seconds: Annotated[float, Limits(ge=0, le=MAX_ADVANCE_SECONDS, finite=True)] = arg("how far", positional=True)
    sessions: bool = arg("true: also for members of groups, who cannot send heartbeats at that pace", default=False)

    async def run(self, operator: Operator) -> Answer:
        ended = await operator.clock.advance(self.seconds, sessions=self.sessions)
        shown = [_ended(each) for each in ended[:ENDED_SHOWN]]
        return {**operator.clock.state(), "ended_count": len(ended), "ended": shown}


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


def _ended(ended: EndedOperation) -> dict[str, Any]:
    operation = ended.operation
    return {
        "broker": ended.broker_id,
        "purgatory": operation.purgatory,
        "client": operation.client,
        "keys": [str(key) for key in operation.keys],
        "missing": in_words(operation.causes),
        "waited_ms": operation.done_ms - operation.parked_ms,
    }
