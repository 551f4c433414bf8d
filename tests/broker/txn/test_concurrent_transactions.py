"""No live producer is fenced: which answer a request gets in each state, by the identity that its producer has.

The expected codes are those of Kafka 4.3 (`TransactionCoordinator.scala`). Where Kafka answers CONCURRENT_TRANSACTIONS,
so that its clients ask again, a request waits here until the transition has ended, and is judged then. In Kafka the
transition to PrepareX is followed by the pending one to CompleteX at once, so that PrepareX is pending until its end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.requests import PATIENCE_MS
from purgatorio.broker.txn.values import LAST_EPOCH
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.txn.harness import A, Asked, B, TransactionHarness

OK = ErrorCode.NONE
STATE = ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
ABORT = ErrorCode.TRANSACTION_ABORTABLE

OLD, HOLDER, NEXT = 0, 1, 2
"""The producer of the transaction before, that of the transaction, and that of the one after it."""

Request = Callable[[TransactionHarness, ProducerIdAndEpoch], Asked]


def verified(broker: TransactionHarness, producer: ProducerIdAndEpoch) -> Asked:
    """Return the answer to AddPartitionsToTxn with verify_only."""
    try:
        return Asked(broker.verify(producer, A))
    except CoordinatorError as error:
        return Asked([error.error_code])


REQUESTS: dict[str, Request] = {
    "end 4 commit": lambda broker, producer: broker.end(producer, True),
    "end 4 abort": lambda broker, producer: broker.end(producer, False),
    "end 5 commit": lambda broker, producer: broker.end(producer, True, bumps=True),
    "end 5 abort": lambda broker, producer: broker.end(producer, False, bumps=True),
    "add": lambda broker, producer: broker.add(producer, B),
    "add by leader": lambda broker, producer: broker.add(producer, B, version=2, by_leader=True),
    "verify": verified,
    "init": lambda broker, _: broker.init(),
    "init again": lambda broker, producer: broker.init(producer),
}
"""The requests of producers; those of TxnOffsetCommit and Produce come as "verify" and "add by leader"."""

STATES = (
    "empty",
    "adding",
    "ongoing",
    "committing",
    "aborting",
    "prepare commit",
    "prepare abort",
    "completing",
    "complete commit",
    "complete abort",
    "timing out",
    "timed out",
)
"""States of a transactional id. Those in "-ing" have a record that the replicas do not have yet."""

WAITS = (WAIT, WAIT, WAIT)
ONLY_HOLDER = (FENCED, OK, FENCED)
ONLY_NEXT = (FENCED, FENCED, OK)

# By request and state: the answers to OLD, HOLDER and NEXT.
_IDLE_BEFORE = {
    "end 4 commit": (FENCED, STATE, FENCED),
    "end 4 abort": (FENCED, STATE, FENCED),
    "end 5 commit": (FENCED, STATE, FENCED),
    "end 5 abort": ONLY_HOLDER,
    "add": ONLY_HOLDER,
    "add by leader": ONLY_HOLDER,
    "verify": (FENCED, ABORT, FENCED),
    "init": (OK, OK, OK),
    "init again": (OK, OK, FENCED),  # KIP-360: the one before may have lost the answer
}
_ONGOING = {
    "end 4 commit": ONLY_HOLDER,
    "end 4 abort": ONLY_HOLDER,
    "end 5 commit": ONLY_HOLDER,
    "end 5 abort": ONLY_HOLDER,
    "add": ONLY_HOLDER,
    "add by leader": ONLY_HOLDER,
    "verify": ONLY_HOLDER,
    "init": WAITS,  # the open transaction is aborted meanwhile
    # Kafka lets a producer that was fenced abort the transaction of the one that lives, and fences it afterwards.
    "init again": (FENCED, WAIT, FENCED),
}
_PENDING = {
    **dict.fromkeys(REQUESTS, WAITS),
    "end 4 commit": (FENCED, WAIT, FENCED),  # compares ids first
    "end 4 abort": (FENCED, WAIT, FENCED),
    "verify": ONLY_HOLDER,  # KAFKA-14904: a pending transition changes nothing
}
_ADDING = {**_PENDING, "verify": (FENCED, ABORT, FENCED)}
_PREPARE = {
    **dict.fromkeys(REQUESTS, WAITS),
    "end 4 commit": (FENCED, FENCED, WAIT),
    "end 4 abort": (FENCED, FENCED, WAIT),
    "verify": (FENCED, FENCED, WAIT),
}
_COMPLETE = {
    "end 5 abort": (FENCED, STATE, OK),
    "add": ONLY_NEXT,
    "add by leader": ONLY_NEXT,
    "verify": (FENCED, FENCED, ABORT),
    "init": (OK, OK, OK),
    "init again": (FENCED, OK, OK),
}
_COMMITTED = {
    **_COMPLETE,
    "end 4 commit": ONLY_NEXT,
    "end 4 abort": (FENCED, FENCED, STATE),
    "end 5 commit": (FENCED, OK, STATE),
}
_ABORTED = {
    **_COMPLETE,
    "end 4 commit": (FENCED, FENCED, STATE),
    "end 4 abort": ONLY_NEXT,
    "end 5 commit": (FENCED, STATE, STATE),
    "end 5 abort": (FENCED, OK, OK),
}
EXPECTED = {
    "empty": _IDLE_BEFORE,
    "adding": _ADDING,
    "ongoing": _ONGOING,
    "committing": _PENDING,
    "aborting": _PENDING,
    "prepare commit": _PREPARE,
    "prepare abort": _PREPARE,
    "completing": _PREPARE,
    "complete commit": _COMMITTED,
    "complete abort": _ABORTED,
    "timing out": _PENDING,
    "timed out": _PREPARE,
}


class World:
    """A transactional id in one of the states, and the three identities that its producer has one after the other."""

    def __init__(self, state: str, *, epochs_run_out: bool = False) -> None:
        self.broker = TransactionHarness(replicas=(1, 2), version=2)
        first = self.broker.init()
        self.broker.commit()
        if epochs_run_out:
            value = self.broker.value()
            self.broker.transaction().value = value._replace(producer_epoch=LAST_EPOCH - 1)
        old = ProducerIdAndEpoch(100, self.broker.value().producer_epoch)
        holder = ProducerIdAndEpoch(100, old.producer_epoch + 1)
        after = ProducerIdAndEpoch(101, 0) if epochs_run_out else ProducerIdAndEpoch(100, holder.producer_epoch + 1)
        self.identities = old, holder, after
        again = self.broker.init(old)
        self.broker.commit()
        assert (first.producer.producer_id, again.producer) == (100, holder)
        self.bring_to(state, holder)

    def bring_to(self, state: str, holder: ProducerIdAndEpoch) -> None:
        broker = self.broker
        if state == "empty":
            return
        broker.add(holder, A, version=2)
        if state == "adding":
            return
        broker.commit()
        if state == "ongoing":
            return
        if state.startswith("tim"):
            broker.advance_ms(broker.value().timeout_ms)
        else:
            broker.end(holder, "commit" in state or state == "completing", bumps=True)
        if state in ("committing", "aborting", "timing out"):
            return
        broker.commit()
        assert broker.value().state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
        if state.startswith("prepare") or state == "timed out":
            return
        broker.ends.write()
        if state != "completing":
            broker.commit()

    def finish(self) -> None:
        """Let all transitions end."""
        for _ in range(4):
            self.broker.commit()
            if self.broker.ends.endings:
                self.broker.ends.write()
            self.broker.commit()


def judged(state: str, request: str, who: int, *, epochs_run_out: bool = False) -> tuple[World, Asked, ErrorCode]:
    """Return the answer that a request gets at once, or CONCURRENT_TRANSACTIONS if it waits."""
    world = World(state, epochs_run_out=epochs_run_out)
    broker = world.broker
    before = broker.transaction().pending, broker.value().state
    records = len(broker.logged())
    asked = REQUESTS[request](broker, world.identities[who])
    if asked.answered:
        return world, asked, asked.error
    if broker.purgatory.num_delayed:
        assert (broker.transaction().pending, broker.value().state) == before, "a request that waits changes nothing"
        return world, asked, WAIT
    assert len(broker.logged()) == records + 1, "it is judged, and waits for the replicas of its own record"
    if before[1] is State.ONGOING and request.startswith("init"):
        return world, asked, WAIT
    broker.commit()
    return world, asked, asked.error


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_request_is_answered_as_by_kafka_in_each_state(state: str, request_name: str) -> None:
    answers = tuple(judged(state, request_name, who)[2] for who in (OLD, HOLDER, NEXT))
    assert answers == EXPECTED[state][request_name]


@pytest.mark.parametrize("state", ["committing", "prepare commit", "prepare abort", "completing"])
@pytest.mark.parametrize("request_name", ["end 5 abort", "add", "init", "init again"])
@pytest.mark.parametrize("epochs_run_out", [False, True])
def test_the_next_identity_of_a_producer_waits_for_its_last_transaction_and_is_not_refused(
    state: str, request_name: str, epochs_run_out: bool
) -> None:
    """Also when the epochs have run out, so that the next identity is a producer id that is pending."""
    world, asked, code = judged(state, request_name, NEXT, epochs_run_out=epochs_run_out)
    assert code == WAIT
    world.finish()
    assert asked.error == OK


@pytest.mark.parametrize("epochs_run_out", [False, True])
def test_a_leader_asks_for_the_next_identity_while_markers_are_written(epochs_run_out: bool) -> None:
    """Produce and TxnOffsetCommit of the next transaction."""
    world, asked, code = judged("prepare commit", "add by leader", NEXT, epochs_run_out=epochs_run_out)
    assert code == WAIT
    world.finish()
    assert asked.error == OK
    assert list(world.broker.value().partitions) == [B]


@pytest.mark.parametrize("commit", [True, False])
def test_a_live_producer_that_aborts_at_once_after_a_commit_is_not_fenced(commit: bool) -> None:
    """It was: PRODUCER_FENCED until the markers were written."""
    broker = TransactionHarness(version=2)
    producer = broker.init().producer
    for _ in range(3):
        broker.add(producer, A, version=2)
        producer = broker.end(producer, commit, bumps=True).producer
        aborted = broker.end(producer, False, bumps=True)
        assert not aborted.answered
        broker.ends.write()
        producer = aborted.producer
    assert producer == ProducerIdAndEpoch(100, 6)
    assert broker.transactions.completion.aborted_count == (3 if commit else 6)


@pytest.mark.parametrize("request_name", ["end 5 abort", "add", "init", "init again"])
def test_a_producer_is_told_of_a_concurrent_transaction_when_its_markers_take_too_long(request_name: str) -> None:
    world, asked, _ = judged("prepare commit", request_name, NEXT)
    world.broker.advance_ms(PATIENCE_MS)
    assert asked.error == WAIT
