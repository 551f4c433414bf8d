"""Random producers, failing appends, late followers, lost and won elections: what must hold in each history.

The log is the truth: each answer must follow from what is committed in it, and each value from the one before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.txn.producers import NO_PRODUCER, ProducerIdAndEpoch
from purgatorio.broker.txn.requests import PATIENCE_MS
from purgatorio.broker.txn.values import TRANSITIONS, TransactionValue
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.txn.harness import ID, PARTITION, A, Asked, B, TransactionHarness
from tests.histories import seeds

STEPS = 120
COUNTED_SEEDS = 10
TIMEOUT_MS = 20_000


class History:
    """Random requests to broker 1, whose partition of ``__transaction_state`` broker 2 follows."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.broker = TransactionHarness(replicas=(1, 2), version=self.rng.choice([1, 2]))
        self.leader_epoch = 0
        self.is_leader = True
        self.asked: list[Asked] = []
        self.known = [NO_PRODUCER]
        self.fresh: list[ProducerIdAndEpoch] = []
        self.answers = {ErrorCode.NONE: 0}

    # --- what is committed ---

    def committed(self) -> list[TransactionValue]:
        """Return the committed values of the id, in order."""
        end = self.broker.partition(PARTITION).high_watermark
        offsets = self.broker.partition(PARTITION).log.log_end_offset
        values = [value for value in self.broker.logged() if value is not None]
        return values[: len(values) - (offsets - end)]

    # --- steps ---

    def step(self) -> None:
        weighted: Sequence[tuple[Callable[[], None], int]] = (
            (self.init, 3),
            (self.add, 6),
            (self.end, 6),
            (self.verify, 1),
            (self.follow, 20),
            (self.marker, 14),
            (self.wait, 4),
            (self.fail, 2),
            (self.change_leader, 1),
        )
        action = self.rng.choices([each for each, _ in weighted], [weight for _, weight in weighted])[0]
        action()
        self.broker.work()
        self.check()

    def producer(self) -> ProducerIdAndEpoch:
        """Return an identity that some producer has: the newest, most of the time."""
        return self.known[-1] if self.rng.random() < 0.9 else self.rng.choice(self.known)

    def init(self) -> None:
        known = self.rng.choice([NO_PRODUCER, self.producer()])
        asked = self.ask(lambda committed, asked: self.initialised(known, committed, asked))
        self.broker.transactions.producers.init(ID, TIMEOUT_MS, known, lambda *answer: asked.answers.append(answer))

    def initialised(self, known: ProducerIdAndEpoch, committed: list[TransactionValue], asked: Asked) -> None:
        assert committed[-1].next_identity == asked.producer, "the answer is what is committed"
        if known == NO_PRODUCER:
            assert asked.producer not in self.fresh, "an identity is given to one producer"
            self.fresh.append(asked.producer)
        self.known.append(asked.producer)

    def add(self) -> None:
        producer, partitions = self.producer(), self.rng.sample([A, B], self.rng.choice([1, 2]))
        version = self.rng.choice([1, 2])

        def added(committed: list[TransactionValue], asked: Asked) -> None:
            last = committed[-1]
            assert last.state is State.ONGOING
            assert producer == (last.producer_id, last.producer_epoch)
            assert all(tp in last.partitions for tp in partitions)

        asked = self.ask(added)
        self.broker.transactions.partitions.add(
            ID, producer, partitions, asked.answers.append, version=version, by_leader=version == 2
        )

    def end(self) -> None:
        producer, commit, bumps = self.producer(), self.rng.random() < 0.6, self.rng.random() < 0.5

        def ended(committed: list[TransactionValue], asked: Asked) -> None:
            last = committed[-1]
            assert last.state not in (State.EMPTY, State.ONGOING)
            assert last.is_commit == commit
            if bumps:
                assert asked.producer == last.next_identity
                self.known.append(asked.producer)

        asked = self.ask(ended)
        done = lambda *answer: asked.answers.append(answer)  # noqa: E731  (short)
        self.broker.transactions.producers.end(ID, producer, commit, done, bumps=bumps)

    def verify(self) -> None:
        """Verification reads what is committed, even while this broker's next record is on its way."""
        producer = self.producer()
        try:
            (code,) = self.broker.verify(producer, A)
        except CoordinatorError:
            return
        last = self.committed()[-1]
        assert producer == (last.producer_id, last.producer_epoch)
        assert (code == ErrorCode.NONE) == (last.state is State.ONGOING and A in last.partitions)

    def ask(self, check: Callable[[list[TransactionValue], Asked], None]) -> Asked:
        """Return a request whose answer is checked when it comes."""
        history = self

        class Answers(list):  # type: ignore[type-arg]
            def append(self, answer: object) -> None:
                super().append(answer)
                history.answers[asked.error] = history.answers.get(asked.error, 0) + 1
                if asked.error == ErrorCode.NONE:
                    check(history.committed(), asked)

        asked = Asked(Answers())
        self.asked.append(asked)
        return asked

    def follow(self) -> None:
        """Broker 2 fetches all; as leader, it loses the next election."""
        if self.is_leader:
            self.broker.commit()
        else:
            self.change_leader()
            self.broker.work()
            self.broker.commit()

    def marker(self) -> None:
        endings = self.broker.ends.endings
        if endings:
            nth = -1 if self.rng.random() < 0.9 else self.rng.randrange(len(endings))
            self.broker.ends.write(self.rng.choice([A, B]), nth=nth)

    def wait(self) -> None:
        self.broker.advance_ms(self.rng.choice([1, 10, 100, 100, 1_000, 6_000]))

    def fail(self) -> None:
        """The lease is uncertain for a moment: appends are refused."""
        self.broker.may_lead = False
        self.rng.choice([self.add, self.end, self.marker, self.wait])()
        self.broker.may_lead = True

    def change_leader(self) -> None:
        """Broker 2 is elected, perhaps without the records that it had not fetched; later broker 1 again."""
        self.leader_epoch += 1
        self.is_leader = not self.is_leader
        self.broker.elect(1 if self.is_leader else 2, self.leader_epoch, (1, 2))
        partition = self.broker.partition(PARTITION)
        if not self.is_leader and self.rng.random() < 0.5:
            self.broker.replicas.truncate_to(partition, partition.high_watermark)

    # --- invariants ---

    def check(self) -> None:
        values = [value for value in self.broker.logged() if value is not None]
        before = TransactionValue()
        for value in values:
            assert value.state in TRANSITIONS[before.state]
            if value.producer_id == before.producer_id:
                assert value.producer_epoch >= before.producer_epoch
                assert value.updated_ms >= before.updated_ms
            before = value
        for shard in self.broker.transactions.coordinator.shards:
            transaction = shard.transactions.get(ID)
            committed = self.committed()
            if shard.is_active and transaction is not None and transaction.pending is None:
                last = transaction.value._replace(last_epoch=committed[-1].last_epoch)
                assert last == committed[-1]

    def finish(self) -> None:
        """Let all replicas follow and all time pass: each request is answered, and the transaction ends."""
        if not self.is_leader:
            self.change_leader()
        for _ in range(12):
            self.broker.work()
            self.broker.commit()
            for tp in (A, B):
                if self.broker.ends.endings:
                    self.broker.ends.write(tp)
            self.broker.commit()
            self.broker.advance_ms(PATIENCE_MS)
        self.check()
        assert [len(asked.answers) for asked in self.asked] == [1] * len(self.asked)
        assert self.broker.purgatory.num_delayed == self.broker.timeouts.num_delayed == 0
        assert not any(value.state is State.ONGOING for value in self.committed()[-1:])
        for shard in self.broker.transactions.coordinator.shards:
            assert not any(each.is_busy for each in shard.transactions.values())


@pytest.mark.parametrize("seed", seeds(40, quick=3))
def test_each_history_keeps_its_promises(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.finish()


def test_histories_have_successes_and_refusals_of_each_kind() -> None:
    """A model that sees only refusals proves nothing."""
    seen: dict[ErrorCode, int] = {}
    for seed in range(COUNTED_SEEDS):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
        for code, count in history.answers.items():
            seen[code] = seen.get(code, 0) + count
    assert seen[ErrorCode.NONE] > 75
    for code in (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.PRODUCER_FENCED,
    ):
        assert seen[code] > 0, code
