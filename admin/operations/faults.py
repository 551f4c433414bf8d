"""Operations on fault rules.

The admin HTTP is beyond every rule: a rule acts on requests of Kafka's protocol, on their connections, and on
calls of the tier's object store, and can always be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from purgatorio.admin.operations.declare import MAX_INT64, Answer, Limits, Operation, arg
from purgatorio.broker.cluster.errors import Invalid, NotThere, OperationRefused

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator
    from purgatorio.broker.layers.faults import AnyLive

FIRED_SHOWN: Final = 100
MAX_FIRED_SHOWN: Final = 1_000
_ID: Final = "the rule's id, as listed"
_RuleId = Annotated[int, Limits(le=MAX_INT64)]


def _names() -> dict[str, str]:
    from purgatorio.broker.layers.faults.rule import RULE_WORDS
    from purgatorio.broker.layers.faults.tier_rule import TIER_WORDS
    from purgatorio.broker.layers.faults.toxic import TOXIC_WORDS

    return {**TIER_WORDS, **RULE_WORDS, **TOXIC_WORDS}


class ListFaults(Operation, http="GET /faults", command="fault list", answered_by="all brokers"):
    """The fault rules with their counts, oldest first, and the faults that fired last, newest first."""

    fired: Annotated[int, Limits(ge=0, le=MAX_FIRED_SHOWN)] = arg(
        f"how many faults that fired, up to {MAX_FIRED_SHOWN}", default=FIRED_SHOWN
    )

    async def run(self, operator: Operator) -> Answer:
        faults = operator.cluster.faults
        fired = list(faults.fired)[-self.fired :] if self.fired else []
        return {
            "now_ms": operator.cluster.clock.now_ms(),
            "faults": [live.as_data() for live in faults.rules],
            "fired": [each._asdict() for each in reversed(fired)],
        }


class AddFault(Operation, http="POST /faults", answered_by="all brokers"):
    """Add a fault rule: what is done to which requests; the newest rule that matches a request acts."""

    rule: dict[str, Any] = arg("its names and values", whole=_names)

    async def run(self, operator: Operator) -> Answer:
        """Apply it to the requests that are received from now on."""
        from purgatorio.broker.layers.faults import FaultError, TooManyFaults, parse_fault

        try:
            return operator.cluster.faults.add(parse_fault(self.rule)).as_data()
        except FaultError as error:
            raise Invalid(str(error)) from None
        except TooManyFaults as error:
            raise OperationRefused(str(error)) from None


class ClearFaults(
    Operation,
    http="DELETE /faults",
    command="fault clear",
    says="{removed:fault rule is|fault rules are} removed",
    answered_by="all brokers",
):
    """Remove all fault rules."""

    async def run(self, operator: Operator) -> Answer:
        removed = len(operator.cluster.faults.rules)
        operator.cluster.faults.clear()
        return {"removed": removed}


class RemoveFault(
    Operation,
    http="DELETE /faults/{id}",
    command="fault remove",
    says="fault {id} is removed; it fired {fired:time|times}",
    answered_by="all brokers",
):
    """Remove a fault rule; requests that it holds go on."""

    id: _RuleId = arg(_ID)

    async def run(self, operator: Operator) -> Answer:
        live = _found(operator, self.id)
        operator.cluster.faults.remove(live.id)
        return live.as_data()


class ReleaseFault(
    Operation,
    http="POST /faults/{id}/release",
    command="fault release",
    says="fault {id} is removed; {released:request that it held goes|requests that it held go} on",
    answered_by="all brokers",
):
    """Let the requests go on that a fault rule holds, and remove it."""

    id: _RuleId = arg(_ID)

    async def run(self, operator: Operator) -> Answer:
        live = _found(operator, self.id)
        released = live.held
        live.release()
        return {**live.as_data(), "released": released}


def _found(operator: Operator, rule_id: int) -> AnyLive:
    for live in operator.cluster.faults.rules:
        if live.id == rule_id:
            return live
    raise NotThere("there is no such fault rule, or no longer")
