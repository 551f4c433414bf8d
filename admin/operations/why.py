"""Operations that say why clients get nothing: of facts, conclusions; and of both, the report of a failed test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations.declare import Answer, Limits, Operation, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator
    from purgatorio.admin.operations.reading.why import known

MAX_NAME: Final = 2**15 - 1


class Facts(Operation, http="GET /facts", answered_by="all brokers"):
    """Topics, groups, where consumers read, what waits, transactions, faults and the last requests, at one moment."""

    async def run(self, operator: Operator) -> Answer:
        return await _read(operator)


class Report(Operation, http="GET /report", made_of=Facts):
    """Why clients get nothing, and what the cluster has, as the text that a failed test shows."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.report import text_of

        return {"text": text_of(*await _concluded(operator))}

    def made(self, answer: Answer) -> Answer:
        """Return the text of facts."""
        from purgatorio.admin.operations.reading.report import report_of

        return {"text": report_of(answer)}


class Why(Operation, http="GET /why", made_of=Facts, shared_ms=1_000):
    """Say why a group, a topic or a client gets nothing; all of them if none is named."""

    name: Annotated[str, Limits(max_length=MAX_NAME)] | None = arg(
        "only about this group, topic or client id", default=None
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.report import explanation

        facts, found = await _concluded(operator, self.name or "")
        return explanation(facts, self.name or "", found)

    def made(self, answer: Answer) -> Answer:
        """Return conclusions from facts, and the text with what the cluster has of that name.

        Raises:
            NotThere: there is no group, topic or client of that name.
        """
        from purgatorio.admin.operations.reading.report import explained

        return explained(answer, self.name or "")


async def _concluded(operator: Operator, about: str = "") -> tuple[known.Facts, list[known.Conclusion]]:
    """Return the facts, and what follows from them, found in steps between which others go on."""
    from purgatorio.admin.operations.reading.why import known
    from purgatorio.admin.operations.reading.why.conclusions import concluding

    facts = known.Facts(await _read(operator))
    found: list[known.Conclusion] = []
    await operator.cluster.work.take(concluding(facts, found, about))
    return facts, found


async def _read(operator: Operator) -> Answer:
    from purgatorio.admin.operations.reading.why.facts import read_facts

    return await read_facts(operator)
