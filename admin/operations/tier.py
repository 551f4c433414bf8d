"""Operations on the tier: what it has of topics, offloading these, holding its reads and copies, verifying it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from purgatorio.admin.operations.declare import Answer, Limits, Operation, TopicName, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

Calls = Literal["reads", "writes"]
MAX_TIMEOUT_SECONDS: Final = 600
TIMEOUT_SECONDS: Final = 10.0
MAX_SEGMENTS: Final = 1_000
MAX_DAMAGES: Final = 1_000
"""Damaged segments that an answer lists."""
_CALLS: Final = "reads, which are of consumers, or writes, which are copies"
_ONLY: Final = "only of this topic's records; of all topics if it is not given"


class ListTier(Operation, http="GET /tier", command="tier list", answered_by="all brokers"):
    """List the topics that have a part in the tier, with their bytes there, in memory, and not copied yet."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control import tier_control

        return await tier_control.topics_in_tier(operator.cluster)


class ShowTier(Operation, http="GET /tier/{topic}", command="tier show", answered_by="all brokers"):
    """Show which records of each partition are in the tier, in memory, or both."""

    topic: str = arg("the topic")
    segments: Annotated[int, Limits(ge=0, le=MAX_SEGMENTS)] = arg(
        f"how many segments of each partition are listed, up to {MAX_SEGMENTS}; none if it is not given", default=0
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control import tier_control

        return await tier_control.partitions_in_tier(operator.cluster, self.topic, self.segments)


class Offload(
    Operation,
    http="POST /tier/{topic}/offload",
    command="tier offload",
    patience_seconds=MAX_TIMEOUT_SECONDS + 10,
    answered_by="all brokers",
):
    """Copy all committed records of a topic to the tier, and delete them from memory; answers when it is done.

    Segments are closed for it. Records behind an open transaction stay, as those that are not committed.
    """

    topic: str = arg("the topic")
    timeout_seconds: Annotated[float, Limits(ge=0, le=MAX_TIMEOUT_SECONDS, finite=True)] = arg(
        "the longest wait for the store; 10 s if it is not given", default=TIMEOUT_SECONDS, metavar="SECONDS"
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control import tier_control

        return await tier_control.offload(operator.cluster, self.topic, self.timeout_seconds)


class VerifyTier(
    Operation,
    http="POST /tier/{topic}/verify",
    command="tier verify",
    patience_seconds=3600.0,
    answered_by="all brokers",
):
    """Read all objects of a topic, and compare sizes and checksums with what was written."""

    topic: str = arg("the topic")

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control import tier_control

        return await tier_control.verify(operator.cluster, self.topic, MAX_DAMAGES)


class SweepTier(
    Operation,
    http="POST /tier/sweep",
    command="tier sweep",
    says="{deleted:object of a deleted topic is|objects of deleted topics are} deleted",
    patience_seconds=600.0,
    answered_by="all brokers",
):
    """Look through the whole tier for objects of deleted topics, and delete them; the controller's broker does."""

    async def run(self, operator: Operator) -> Answer:
        """Do it; those of a topic that was found only now go after a minute, by a later sweep."""
        from purgatorio.admin.operations.control import tier_control

        return {"deleted": await tier_control.sweep(operator.cluster)}


class HoldTier(
    Operation,
    http="POST /tier/hold",
    command="tier hold",
    says="{what} of the tier are held by fault rule {id}; purgatorio tier release {what} lets them go",
    answered_by="all brokers",
):
    """Hold reads or writes of the tier, by a fault rule, until they are released."""

    what: Calls = arg(_CALLS, positional=True, metavar="reads|writes")
    topic: TopicName | None = arg(_ONLY, default=None)

    async def run(self, operator: Operator) -> Answer:
        """Hold them; if they are held already, nothing changes."""
        from purgatorio.admin.operations.control import tier_control

        return _told(self.what, tier_control.hold(operator.cluster, self.what, self.topic))


class ReleaseTier(
    Operation,
    http="POST /tier/release",
    command="tier release",
    says="{what} of the tier go on; {released:call was|calls were} held",
    answered_by="all brokers",
):
    """Let reads or writes of the tier go on that were held."""

    what: Calls = arg(_CALLS, positional=True, metavar="reads|writes")
    topic: TopicName | None = arg("only the hold of this topic; all holds if it is not given", default=None)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control import tier_control

        return {"what": self.what, "released": tier_control.release(operator.cluster, self.what, self.topic)}


def _told(what: str, rule: dict[str, Any]) -> Answer:
    return {"what": what, **rule}
