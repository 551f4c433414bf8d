"""Histories of the share coordinator (KIP-932): the states of share partitions, as brokers ask for them."""

from __future__ import annotations

import base64
from typing import Any

from purgatorio.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from purgatorio.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStateTopic,
)
from purgatorio.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryPartition,
    ReadStateSummaryTopic,
)
from purgatorio.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from purgatorio.protocol.share_state import StateBatch
from tests.compat.same_answers.talk import Talk

ERAS = (0, 1)
"""The versions of the requests that write and summarize a state."""
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_ID = bytes(15) + b"\7"
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


class Leader:
    """A leader of the only partition of a topic, with a share group that no other request knows."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.topic = talk.new_topic("states")
        asked = ReadStateSummaryTopic(
            topic_id=talk.topic_ids[self.topic], partitions=[ReadStateSummaryPartition(partition=0)]
        )
        request = ReadShareGroupStateSummaryRequest(group_id=talk.group, topics=[asked])

        def is_known() -> bool:
            answer = talk.ask("known", request, record=False)
            return answer.results[0].partitions[0].error_code != UNKNOWN_TOPIC_OR_PARTITION

        talk.until_true(is_known)

    def _ask(self, step: str, kinds: tuple[Any, Any, Any], **fields: Any) -> None:
        """Ask about one partition of one topic."""
        request, topic, partition = kinds
        where = {"group_id": self.talk.group, "topic_id": self.talk.topic_ids[self.topic], "partition": 0}
        where |= {name: fields.pop(name) for name in where if name in fields}
        entries = [partition(partition=where["partition"], **fields)]
        topics = [topic(topic_id=where["topic_id"], partitions=entries)]
        self.talk.ask(step, request(group_id=where["group_id"], topics=topics))

    def initialize(self, step: str, **fields: Any) -> None:
        """InitializeShareGroupState."""
        kinds = InitializeShareGroupStateRequest, InitializeStateTopic, InitializeStatePartition
        self._ask(step, kinds, **{"state_epoch": 1, "start_offset": -1, **fields})

    def read(self, step: str, **fields: Any) -> None:
        """ReadShareGroupState."""
        self._ask(
            step, (ReadShareGroupStateRequest, ReadStateTopic, ReadStatePartition), **{"leader_epoch": 0, **fields}
        )

    def write(self, step: str, *batches: tuple[int, int, int, int], **fields: Any) -> None:
        """WriteShareGroupState, with batches of first offset, last offset, state and delivery count."""
        states = [
            StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ]
        given = {"state_epoch": 1, "leader_epoch": 0, "start_offset": -1, "state_batches": states, **fields}
        self._ask(step, (WriteShareGroupStateRequest, WriteStateTopic, WriteStatePartition), **given)

    def delete(self, step: str, **fields: Any) -> None:
        """DeleteShareGroupState."""
        self._ask(step, (DeleteShareGroupStateRequest, DeleteStateTopic, DeleteStatePartition), **fields)

    def summary(self, step: str, **fields: Any) -> None:
        """ReadShareGroupStateSummary."""
        kinds = ReadShareGroupStateSummaryRequest, ReadStateSummaryTopic, ReadStateSummaryPartition
        self._ask(step, kinds, **{"leader_epoch": 0, **fields})

    def every(self, step: str, **fields: Any) -> None:
        """All five requests; the state is deleted last."""
        for ask in (self.initialize, self.read, self.write, self.summary, self.delete):
            ask(step, **fields)


def _text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def not_initialized(talk: Talk) -> None:
    """A state that there is not."""
    leader = Leader(talk)
    leader.read("none")
    leader.write("none", (0, 9, AVAILABLE, 1))
    leader.summary("none")
    leader.delete("none")


def wrong_places(talk: Talk) -> None:
    """Topics and partitions that do not exist, and requests without them."""
    leader = Leader(talk)
    leader.every("unknown topic", topic_id=UNKNOWN_ID)
    leader.every("unknown partition", partition=7)
    leader.every("negative partition", partition=-1)
    leader.every("empty group", group_id="")
    of_group = {"group_id": talk.group}
    topic_id = talk.topic_ids[leader.topic]
    for request, topic in (
        (InitializeShareGroupStateRequest, InitializeStateTopic),
        (ReadShareGroupStateRequest, ReadStateTopic),
        (WriteShareGroupStateRequest, WriteStateTopic),
        (DeleteShareGroupStateRequest, DeleteStateTopic),
        (ReadShareGroupStateSummaryRequest, ReadStateSummaryTopic),
    ):
        talk.ask("no topics", request(**of_group, topics=[]))
        talk.ask("no partitions", request(**of_group, topics=[topic(topic_id=topic_id, partitions=[])]))


def one_state(talk: Talk) -> None:
    """A state is initialized, read, written, summarized, and deleted."""
    leader = Leader(talk)
    leader.initialize("first")
    leader.summary("first")
    leader.read("first")
    leader.write("batches", (0, 9, AVAILABLE, 1), (10, 19, ACKNOWLEDGED, 1), (20, 20, ARCHIVED, 3), start_offset=0)
    leader.read("batches")
    leader.summary("batches")
    leader.write("within", (3, 4, ACKNOWLEDGED, 2), (5, 5, AVAILABLE, 2), delivery_complete_count=2)
    leader.read("within")
    leader.summary("within")
    leader.write("joined", (0, 2, ACKNOWLEDGED, 2))
    leader.read("joined")
    leader.write("start", start_offset=5, delivery_complete_count=1)
    leader.read("start")
    leader.summary("start")
    leader.delete("ends")
    leader.summary("deleted")
    leader.read("deleted")
    leader.delete("again")


def fences(talk: Talk) -> None:
    """Epochs of leaders and of states that are too old."""
    leader = Leader(talk)
    leader.initialize("epoch 5", state_epoch=5, start_offset=10)
    leader.summary("epoch 5")
    leader.initialize("epoch 4", state_epoch=4)
    leader.initialize("epoch -1", state_epoch=-1)
    leader.write("older state", (10, 19, AVAILABLE, 1), state_epoch=4)
    leader.write("newer state", (10, 19, AVAILABLE, 1), state_epoch=6)
    leader.write("right", (10, 19, AVAILABLE, 1), state_epoch=5)
    leader.read("leader 3", leader_epoch=3)
    leader.summary("leader 3")
    leader.read("leader 2", leader_epoch=2)
    leader.read("leader -1", leader_epoch=-1)
    leader.write("leader 2", (10, 19, ACKNOWLEDGED, 1), state_epoch=5, leader_epoch=2)
    leader.write("leader 4", (10, 12, ACKNOWLEDGED, 1), state_epoch=5, leader_epoch=4)
    leader.summary("leader 4")
    leader.read("leader 4", leader_epoch=4)
    leader.initialize("epoch 6", state_epoch=6, start_offset=100)
    leader.summary("epoch 6")
    leader.read("epoch 6", leader_epoch=4)


def wrong_batches(talk: Talk) -> None:
    """Batches that are in no order, or beyond what there may be."""
    leader = Leader(talk)
    leader.initialize("first", start_offset=0)
    for step, batches in {
        "backwards": ((9, 0, AVAILABLE, 1),),
        "overlap": ((0, 9, AVAILABLE, 1), (5, 12, ACKNOWLEDGED, 1)),
        "not in order": ((30, 39, AVAILABLE, 1), (20, 29, AVAILABLE, 1)),
        "unknown state": ((50, 59, 9, 1),),
        "negative offset": ((-5, -1, AVAILABLE, 1),),
        "negative count": ((60, 69, AVAILABLE, -1),),
    }.items():
        leader.write(step, *batches)
    leader.write("negative start", start_offset=-2)
    leader.write("negative complete count", delivery_complete_count=-2)
    leader.initialize("negative start", start_offset=-2, state_epoch=2)


def merged_batches(talk: Talk) -> None:
    """Which of two states wins for the same records."""
    leader = Leader(talk)
    leader.initialize("first", start_offset=0)
    leader.write("first", (0, 9, AVAILABLE, 2), (10, 19, ACKNOWLEDGED, 1))
    for step, batch in {
        "lower count": (0, 4, ACKNOWLEDGED, 1),
        "same count, higher state": (0, 4, ACKNOWLEDGED, 2),
        "same count, lower state": (2, 3, AVAILABLE, 2),
        "higher count, lower state": (12, 13, AVAILABLE, 3),
        "across": (8, 11, ARCHIVED, 5),
        "far": (100, 100, AVAILABLE, 1),
        "fills": (20, 99, AVAILABLE, 1),
    }.items():
        leader.write(step, batch)
        leader.read(step)
    leader.write("start within", (15, 30, ACKNOWLEDGED, 9), start_offset=17)
    leader.read("start within")
    leader.write("start goes back", start_offset=3)
    leader.read("start goes back")


def share_coordinators(talk: Talk) -> None:
    """FindCoordinator for share partitions with right and odd keys, in the versions that know them and one before."""
    topic = talk.new_topic("keys")
    text = _text(talk.topic_ids[topic])
    keys = {
        "right": f"group:{text}:0",
        "colon in the group": f"a:b:{text}:0",
        "unknown topic": f"group:{_text(UNKNOWN_ID)}:0",
        "empty group": f":{text}:0",
        "unknown partition": f"group:{text}:9",
        "negative partition": f"group:{text}:-1",
        "no number": f"group:{text}:x",
        "no topic id": "group:nonsense:0",
        "two parts": f"group:{text}",
        "empty": "",
    }
    for version in (5, 6):
        for step, key in keys.items():
            request = FindCoordinatorRequest(key=key, key_type=2, coordinator_keys=[key])
            answer = talk.ask("ask", request, record=False, version=version)
            for each in answer.coordinators:
                each.key = ""
            talk.note(f"{step}, version {version}", answer)


HISTORIES = [
    not_initialized,
    wrong_places,
    one_state,
    fences,
    wrong_batches,
    merged_batches,
    share_coordinators,
]
