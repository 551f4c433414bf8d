"""The checks of transactions find each anomaly, and nothing in what clients and faults may cause."""

from __future__ import annotations

from purgatorio.simulation.checks.checkers import check
from purgatorio.simulation.checks.transaction_checkers import TRANSACTION_CHECKS, check_transactions
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Cleaned,
    Drained,
    GroupTransforms,
    History,
    Polled,
    Sent,
    TxnBegan,
    TxnCommitting,
    TxnDrained,
    TxnEnded,
    TxnInit,
    TxnMarker,
    TxnPolled,
    TxnWrote,
)

P, Q = "orders-0", "orders-1"
OUTPUT = "shipped-0"
PRODUCER = 1000


def history_of(*events: Event | list[Event]) -> History:
    history = History()
    for event in events:
        for each in event if isinstance(event, list) else [event]:
            history.record(each)
    return history


def names(*events: Event | list[Event]) -> list[str]:
    return [anomaly.name for anomaly in check_transactions(history_of(*events))]


def begun(txn: int = 1, *, epoch: int = 0, client: str = "p", name: str = "billing") -> TxnBegan:
    return TxnBegan(0, client, name, txn, PRODUCER, epoch)


def wrote(value: int, partition: str = P, *, txn: int = 1, source: tuple[str, int] = ("", -1)) -> list[Event]:
    """A value that was sent in a transaction, and acknowledged."""
    return [
        TxnWrote(1, txn, partition, value, *source),
        Sent(1, "p", partition, value, value),
        Acked(2, "p", partition, value, -1, -1),
    ]


def ended(outcome: str = "committed", *, txn: int = 1) -> list[Event]:
    committing: list[Event] = [] if outcome == "aborted" else [TxnCommitting(3, txn)]
    return [*committing, TxnEnded(4, txn, outcome)]


def committed(txn: int, *values: tuple[int, str], client: str = "p", name: str = "billing") -> list[Event]:
    """A transaction with values of partitions."""
    events: list[Event] = [begun(txn, client=client, name=name)]
    for value, partition in values:
        events += wrote(value, partition, txn=txn)
    return events + ended(txn=txn)


def polled(*records: tuple[int, int], partition: str = P, by: str = "c", stable: int = 100) -> TxnPolled:
    return TxnPolled(5, by, partition, records, stable, 100)


def in_the_end(*records: tuple[int, int], partition: str = P, stable: int = 100) -> list[Event]:
    """What the final reader under read_committed reads of a partition."""
    return [
        TxnPolled(8, "final", partition, records, stable, 100, True),
        TxnDrained(9, partition, 0, stable, 100),
    ]


def log(*entries: tuple[int, int] | TxnMarker, partition: str = P) -> list[Event]:
    """What the final reader without isolation reads of a partition."""
    return [
        entry if isinstance(entry, TxnMarker) else Polled(7, "final", partition, (entry,), 100, final=True)
        for entry in entries
    ]


def marker(offset: int, epoch: int = 0, *, committed: bool = True) -> TxnMarker:
    return TxnMarker(7, "final", P, offset, PRODUCER, epoch, committed, True)


def test_every_check_has_a_sentence() -> None:
    assert all(meaning.endswith(".") for meaning in TRANSACTION_CHECKS.values())


def test_a_committed_transaction_is_no_anomaly() -> None:
    assert (
        names(committed(1, (7, P), (8, Q)), polled((0, 7)), in_the_end((0, 7)), in_the_end((0, 8), partition=Q)) == []
    )


# --- G0 ---


def test_transactions_of_one_id_follow_each_other_in_a_log() -> None:
    both = [*committed(1, (7, P)), *committed(2, (8, P))]
    assert names(both, log((0, 7), marker(1), (2, 8), marker(3))) == []
    assert names(both, log((0, 7), (1, 8), marker(2))) == ["G0"]


def test_transactions_of_different_ids_may_be_mixed() -> None:
    other = [TxnBegan(0, "q", "shipping", 2, PRODUCER + 1, 0), *wrote(8, txn=2), *ended(txn=2)]
    assert names(committed(1, (7, P), (9, P)), other, log((0, 7), (1, 8), (2, 9), marker(3))) == []


def test_a_record_behind_the_marker_that_ended_its_transaction_is_found() -> None:
    assert names(committed(1, (7, P), (8, P)), log((0, 7), marker(1), (2, 8))) == ["G0"]


def test_a_record_behind_the_marker_of_a_later_epoch_is_found() -> None:
    zombie = [begun(1, epoch=3), *wrote(7), *ended("aborted")]
    assert names(zombie, log(marker(0, 3, committed=False), (1, 7))) == []
    assert names(zombie, log(marker(0, 4, committed=False), (1, 7))) == ["G0"]


# --- G1a, G1b ---


def test_a_record_of_an_aborted_transaction_is_never_polled() -> None:
    aborted = [begun(), *wrote(7), *ended("aborted")]
    assert names(aborted) == []
    assert names(aborted, polled((0, 7))) == ["aborted-read"]


def test_a_transaction_whose_client_died_before_it_asked_for_the_commit_counts_as_aborted() -> None:
    assert names([begun(), *wrote(7)], polled((0, 7))) == ["aborted-read"]


def test_a_commit_that_was_asked_for_may_be_seen_before_it_is_answered() -> None:
    assert names(begun(), wrote(7), TxnCommitting(3, 1), polled((0, 7)), TxnEnded(6, 1, "committed")) == []
    assert names(begun(), wrote(7), TxnCommitting(3, 1), polled((0, 7))) == [], "its client died"
    assert names(begun(), wrote(7), TxnCommitting(3, 1), TxnEnded(4, 1, "aborted"), polled((0, 7))) == ["aborted-read"]


def test_a_record_of_an_open_transaction_is_never_polled() -> None:
    assert names(begun(), wrote(7), polled((0, 7)), ended()) == ["unstable-read"]


def test_a_record_at_the_last_stable_offset_is_never_polled() -> None:
    assert names(committed(1, (7, P)), polled((4, 7), stable=5)) == []
    assert names(committed(1, (7, P)), polled((5, 7), stable=5)) == ["unstable-read"]


def test_a_transaction_of_unknown_end_is_there_as_a_whole_or_not_at_all() -> None:
    unknown = [begun(), *wrote(7, P), *wrote(8, Q), *ended("unknown")]
    assert names(unknown, in_the_end((0, 7)), in_the_end((0, 8), partition=Q)) == []
    assert names(unknown, in_the_end(), in_the_end(partition=Q)) == []
    assert names(unknown, in_the_end((0, 7)), in_the_end(partition=Q)) == ["torn-transaction"]
    retained = Cleaned(0, Q, True, 0)
    assert names(retained, unknown, in_the_end((0, 7)), in_the_end(partition=Q)) == [], "retention may have deleted it"


# --- lost ---


def test_a_committed_record_is_there_in_the_end() -> None:
    assert names(committed(1, (7, P)), in_the_end()) == ["lost-transaction"]
    assert names(committed(1, (7, P))) == [], "nothing was read"
    assert names(Cleaned(0, P, True, 0), committed(1, (7, P)), in_the_end()) == []


def test_an_acknowledged_record_without_a_transaction_is_there_in_the_end() -> None:
    plain = [Sent(1, "p", P, 7, 0), Acked(2, "p", P, 7, 0, -1)]
    assert names(plain, in_the_end((0, 7))) == []
    assert names(plain, in_the_end()) == ["lost-transaction"]
    assert names(Acked(2, "p", P, 7, 0, 1), in_the_end()) == [], "its leader may have lost it"


def test_a_reader_passes_no_committed_record() -> None:
    all_of_it = committed(1, (7, P), (8, P), (9, P)), in_the_end((0, 7), (1, 8), (2, 9))
    start = Assigned(4, "c", P, 0)
    assert names(*all_of_it, start, polled((0, 7)), polled((1, 8), (2, 9))) == []
    assert names(*all_of_it, start, polled((0, 7), (2, 9))) == ["committed-skip"]
    assert names(*all_of_it, start, polled((0, 7)), polled((2, 9))) == ["committed-skip"]
    assert names(*all_of_it, start, polled((0, 7)), Assigned(5, "c", P, 2), polled((2, 9))) == []


def test_at_rest_no_transaction_is_open() -> None:
    assert names(in_the_end(stable=99)) == ["hanging-transaction"]


# --- G1c ---


def test_two_transactions_that_read_each_other_are_a_circle() -> None:
    def circle(*, closed: bool) -> list[Event]:
        first, second = begun(1, client="p"), begun(2, client="q", name="shipping")
        asked: list[Event] = [TxnCommitting(3, 1), TxnCommitting(3, 2)]
        reads: list[Event] = [polled((0, 8), by="p"), *([polled((1, 7), by="q")] if closed else [])]
        return [
            first,
            second,
            *wrote(7),
            *wrote(8, txn=2),
            *asked,
            *reads,
            TxnEnded(6, 1, "committed"),
            TxnEnded(6, 2, "committed"),
        ]

    assert names(*circle(closed=True)) == ["G1c"]
    assert names(*circle(closed=False)) == []


# --- fencing ---


def test_a_record_that_a_fenced_producer_sends_never_lands() -> None:
    old, new = TxnInit(0, "p", "billing", PRODUCER, 0), TxnInit(1, "p.2", "billing", PRODUCER, 1)
    zombie = begun(1), *ended("aborted")
    assert names(old, zombie[0], wrote(7), new, list(zombie[1:])) == [], "it was sent before"
    assert names(old, zombie[0], new, wrote(7), list(zombie[1:])) == ["fenced-write"]
    assert names(old, new, begun(1), wrote(7), ended("aborted")) == ["fenced-write"]
    other = TxnInit(1, "p.2", "billing", PRODUCER + 1, 0)
    assert names(old, other, begun(1), wrote(7), ended("aborted")) == ["fenced-write"]
    assert names(new, begun(1, epoch=1), wrote(7), ended()) == []


def test_a_record_of_a_fenced_producer_that_was_refused_is_no_anomaly() -> None:
    old, new = TxnInit(0, "p", "billing", PRODUCER, 0), TxnInit(1, "p.2", "billing", PRODUCER, 1)
    sent = wrote(7)[:2]
    assert names(old, new, begun(1), sent, ended("aborted")) == []
    assert names(old, new, begun(1), sent, ended("aborted"), log((0, 7))) == ["fenced-write"]


# --- exactly once ---


TRANSFORMS = GroupTransforms(0, "eos", "shipped")


def made(txn: int, value: int, offset: int, outcome: str = "committed") -> list[Event]:
    return [begun(txn), *wrote(value, OUTPUT, txn=txn, source=(P, offset)), *ended(outcome, txn=txn)]


def test_each_input_is_in_the_output_once() -> None:
    source = committed(1, (7, P)), in_the_end((0, 7))
    once = made(2, 70, 0)
    assert names(TRANSFORMS, *source, once, in_the_end((0, 70), partition=OUTPUT)) == []
    assert names(TRANSFORMS, *source, in_the_end(partition=OUTPUT)) == ["unprocessed-input"]
    twice = [*once, *made(3, 71, 0)]
    assert names(TRANSFORMS, *source, twice, in_the_end((0, 70), (1, 71), partition=OUTPUT)) == ["processed-twice"]


def test_an_attempt_that_was_aborted_does_not_count() -> None:
    source = committed(1, (7, P)), in_the_end((0, 7))
    attempts = [*made(2, 70, 0, "aborted"), *made(3, 71, 0)]
    assert names(TRANSFORMS, *source, attempts, in_the_end((1, 71), partition=OUTPUT)) == []


# --- the other checks know transactions ---


def test_a_marker_fills_the_gap_between_two_records() -> None:
    sent: list[Event] = [Sent(1, "p", P, value, value) for value in (7, 8)]
    reads: list[Event] = [Assigned(2, "c", P, 0), Polled(3, "c", P, ((0, 7),), 9)]
    seen = TxnMarker(4, "c", P, 1, PRODUCER, 0, True)
    then: list[Event] = [Polled(5, "c", P, ((2, 8),), 9), Drained(9, P, 0, 3)]
    final: list[Event] = [Polled(8, "final", P, ((0, 7), (2, 8)), 9, True)]

    def found(*events: Event) -> list[str]:
        return [anomaly.name for anomaly in check(history_of(*events))]

    assert found(*sent, *reads, seen, *final, *then) == []
    assert found(*sent, *reads, *final, *then) == ["gap", "gap"], "of the consumer, and of the final reader"


def test_compaction_may_drop_an_aborted_record_at_once() -> None:
    def found(outcome: str) -> list[str]:
        events = history_of(
            Cleaned(0, P, False, 5),
            begun(),
            wrote(7),
            ended(outcome),
            Polled(5, "c", P, ((0, 7),), 9),
            Drained(9, P, 0, 3),
        )
        return [anomaly.name for anomaly in check(events)]

    assert found("aborted") == []
    assert found("committed") == ["unseen"]
