"""The index of aborted transactions and the unstable ones, alone; `test_transactions_model` has them in a log."""

from __future__ import annotations

from purgatorio.broker.log.transactions import (
    AbortedTransactions,
    AbortedTxn,
    EndedTransaction,
    UnstableTransactions,
)


def index_of(*transactions: tuple[int, int, int, int]) -> AbortedTransactions:
    aborted = AbortedTransactions()
    for transaction in transactions:
        aborted.add(AbortedTxn(*transaction))
    return aborted


def overlapping(aborted: AbortedTransactions, start: int, end: int) -> list[int]:
    first_offsets, producer_ids = aborted.overlapping(start, end)
    assert first_offsets.tolist() == sorted(first_offsets)
    return producer_ids.tolist()


def test_a_range_has_the_transactions_that_end_in_it_or_behind_it_and_begin_before_its_end() -> None:
    aborted = index_of((1, 0, 10, 11), (2, 20, 30, 31), (3, 40, 50, 51))
    assert aborted.last == AbortedTxn(3, 40, 50, 51)
    assert overlapping(aborted, 0, 60) == [1, 2, 3]
    assert overlapping(aborted, 11, 40) == [2]
    assert overlapping(aborted, 25, 26) == [2]
    assert overlapping(aborted, 11, 20) == []


def test_they_come_in_the_order_of_their_first_offsets_not_of_their_markers() -> None:
    assert overlapping(index_of((1, 5, 10, 0), (2, 0, 11, 12)), 0, 3) == [2]
    assert overlapping(index_of((1, 5, 10, 0), (2, 0, 11, 12)), 0, 12) == [2, 1]


def test_a_truncation_and_a_deletion_drop_the_transactions_whose_markers_go() -> None:
    aborted = index_of((1, 0, 10, 11), (2, 0, 20, 21), (3, 0, 30, 31))
    aborted.truncate(30)
    aborted.delete_before(11)
    assert list(aborted) == [AbortedTxn(2, 0, 20, 21)]
    aborted.truncate(20)
    assert len(aborted) == 0


def test_the_first_unstable_transaction_is_the_oldest_that_is_open_or_has_an_uncommitted_marker() -> None:
    unstable = UnstableTransactions()
    for producer_id in (1, 2, 3):
        unstable.begin(producer_id, producer_id * 10)
    unstable.end(1, 10, 40)
    assert (unstable.first, unstable.first_open(99)) == ((10, 1), 20)
    unstable.committed(40)
    assert unstable.first == (10, 1)
    unstable.committed(41)
    assert unstable.first == (20, 2)


def test_what_was_ended_is_forgotten_also_behind_one_that_stays_open() -> None:
    unstable = UnstableTransactions()
    unstable.begin(1, 0)
    for offset in range(10, 1000, 10):
        unstable.begin(2, offset)
        unstable.end(2, offset, offset + 5)
        unstable.committed(offset + 6)
        assert len(unstable.by_start) == 1
    assert unstable.ended() == []


def test_restored_transactions_are_in_the_order_of_their_starts() -> None:
    unstable = UnstableTransactions()
    unstable.restore([(20, 2), (5, 3)], [EndedTransaction(1, 10, 40), EndedTransaction(4, 0, 50)])
    assert (unstable.first, unstable.first_open(99)) == ((0, 4), 5)
    unstable.committed(51)
    assert unstable.first == (5, 3)
