"""State batches are merged as a plain dict from offset to state and count would be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatorio.broker.share.state.batches import MAX_BATCHES, MAX_OVERLAPPING, StateBatches, problem_of
from purgatorio.protocol.share_state import RecordState, StateBatch

AVAILABLE, ACKED, ARCHIVING, ARCHIVED = (
    RecordState.AVAILABLE,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVING,
    RecordState.ARCHIVED,
)
Model = dict[int, tuple[int, int]]
"""By offset: the delivery count, and the state."""


def batch(first: int, last: int, state: int = AVAILABLE, count: int = 1) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def merged(
    batches: Sequence[StateBatch], changes: Sequence[StateBatch] = (), start_offset: int = -1
) -> list[StateBatch]:
    """Merge changes into batches, and remove what is below the start offset."""
    result = StateBatches(batches)
    result.drop_below(start_offset)
    new = StateBatches(changes)
    new.drop_below(start_offset)
    result.merge(new)
    return result.as_list()


def modelled(model: Model, batches: Sequence[StateBatch]) -> Model:
    """Return the model with these batches."""
    for each in batches:
        for offset in range(each.first_offset, each.last_offset + 1):
            said = (each.delivery_count, each.delivery_state)
            model[offset] = max(said, model.get(offset, said))
    return model


def by_offset(batches: Sequence[StateBatch]) -> Model:
    """Return what merged batches say of each offset; they are in order, and no two could be joined."""
    model: Model = {}
    before: StateBatch | None = None
    for each in batches:
        assert each.first_offset <= each.last_offset
        if before is not None:
            assert before.last_offset < each.first_offset
            touches = before.last_offset + 1 == each.first_offset
            same = (before.delivery_count, before.delivery_state) == (each.delivery_count, each.delivery_state)
            assert not (touches and same), (before, each)
        before = each
        for offset in range(each.first_offset, each.last_offset + 1):
            model[offset] = (each.delivery_count, each.delivery_state)
    return model


@st.composite
def some_batches(draw: st.DrawFn, most: int = 12) -> list[StateBatch]:
    made = []
    for _ in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 40))
        state = draw(st.sampled_from([AVAILABLE, ACKED, ARCHIVING, ARCHIVED]))
        made.append(batch(first, first + draw(st.integers(0, 8)), state, draw(st.integers(0, 3))))
    return made


@given(some_batches(), some_batches(), st.integers(-1, 50))
def test_merging_agrees_with_a_dict(state: list[StateBatch], changes: list[StateBatch], start_offset: int) -> None:
    wanted = modelled(modelled({}, state), changes)
    wanted = {offset: said for offset, said in wanted.items() if offset >= start_offset}
    assert by_offset(merged(state, changes, start_offset)) == wanted


@given(st.lists(some_batches(4), max_size=6), st.randoms(use_true_random=False))
def test_writes_may_come_in_any_order_and_again(writes: list[list[StateBatch]], random: object) -> None:
    def after(order: list[list[StateBatch]]) -> list[StateBatch]:
        state = StateBatches()
        for each in order:
            state.merge(StateBatches(each))
        return state.as_list()

    mixed = writes + writes[:2]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert after(mixed) == after(writes)


@settings(deadline=None)  # a state of 600 batches takes more than 200 ms on a busy machine
@given(some_batches(3), st.integers(0, 600))
def test_few_changes_of_a_long_state_agree_too(changes: list[StateBatch], shift: int) -> None:
    """They are merged one by one."""
    state = [batch(offset, offset, ACKED if offset % 2 else AVAILABLE) for offset in range(600)]
    shifted = [
        batch(each.first_offset + shift, each.last_offset + shift, each.delivery_state, each.delivery_count)
        for each in changes
    ]
    assert by_offset(merged(state, shifted)) == modelled(modelled({}, state), shifted)


@pytest.mark.parametrize(
    ("name", "state", "change", "result"),
    [
        ("the same", (0, 9, AVAILABLE, 1), (0, 9, AVAILABLE, 1), [(0, 9, AVAILABLE, 1)]),
        ("higher count", (0, 9, ACKED, 1), (0, 9, AVAILABLE, 2), [(0, 9, AVAILABLE, 2)]),
        ("lower count", (0, 9, AVAILABLE, 2), (0, 9, ARCHIVED, 1), [(0, 9, AVAILABLE, 2)]),
        ("higher state", (0, 9, AVAILABLE, 1), (0, 9, ACKED, 1), [(0, 9, ACKED, 1)]),
        ("archived at last", (0, 9, ARCHIVING, 5), (0, 9, ARCHIVED, 5), [(0, 9, ARCHIVED, 5)]),
        (
            "split in the middle",
            (0, 9, AVAILABLE, 1),
            (3, 5, ACKED, 1),
            [(0, 2, AVAILABLE, 1), (3, 5, ACKED, 1), (6, 9, AVAILABLE, 1)],
        ),
        ("swallowed", (3, 5, AVAILABLE, 1), (0, 9, ACKED, 1), [(0, 9, ACKED, 1)]),
        (
            "around one that counts more",
            (3, 5, ACKED, 2),
            (0, 9, AVAILABLE, 1),
            [(0, 2, AVAILABLE, 1), (3, 5, ACKED, 2), (6, 9, AVAILABLE, 1)],
        ),
        ("overlap at the end", (0, 5, ACKED, 1), (4, 9, AVAILABLE, 1), [(0, 5, ACKED, 1), (6, 9, AVAILABLE, 1)]),
        ("neighbours that say the same", (0, 4, ACKED, 1), (5, 9, ACKED, 1), [(0, 9, ACKED, 1)]),
        (
            "neighbours that do not",
            (0, 4, ACKED, 1),
            (5, 9, ACKED, 2),
            [(0, 4, ACKED, 1), (5, 9, ACKED, 2)],
        ),
        ("a gap between", (0, 3, ACKED, 1), (5, 9, ACKED, 1), [(0, 3, ACKED, 1), (5, 9, ACKED, 1)]),
    ],
)
def test_two_batches(
    name: str,
    state: tuple[int, int, int, int],
    change: tuple[int, int, int, int],
    result: list[tuple[int, int, int, int]],
) -> None:
    assert merged([batch(*state)], [batch(*change)]) == [batch(*each) for each in result], name


def test_a_gap_is_filled_and_both_neighbours_are_joined() -> None:
    assert merged([batch(0, 3, ACKED), batch(5, 9, ACKED)], [batch(4, 4, ACKED)]) == [batch(0, 9, ACKED)]


@pytest.mark.parametrize(
    ("start_offset", "result"),
    [(-1, [(0, 3), (5, 9)]), (0, [(0, 3), (5, 9)]), (2, [(2, 3), (5, 9)]), (4, [(5, 9)]), (5, [(5, 9)]), (10, [])],
)
def test_what_is_below_the_start_offset_is_dropped(start_offset: int, result: list[tuple[int, int]]) -> None:
    assert merged([batch(0, 3), batch(5, 9)], (), start_offset) == [batch(*each) for each in result]
    assert merged([], [batch(5, 9), batch(0, 3)], start_offset) == [batch(*each) for each in result]


def test_a_copy_is_changed_alone() -> None:
    state = StateBatches([batch(0, 9)])
    copy = state.copy()
    copy.merge(StateBatches([batch(4, 4, ACKED)]))
    assert (len(state), len(copy)) == (1, 3)


def test_the_largest_offsets_are_merged() -> None:
    last = 2**63 - 1
    assert merged([batch(0, last)], [batch(last, last, ACKED)]) == [batch(0, last - 1), batch(last, last, ACKED)]


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([batch(0, 9)], None),
        ([batch(0, 9), batch(5, 6)], None),
        ([batch(9, 8)], "no state batch from offset 9 to 8"),
        ([batch(-1, 8)], "no state batch from offset -1"),
        ([batch(0, 1, RecordState.ACQUIRED)], "State 1 is not stored"),
        ([batch(0, 1, 5)], "State 5 is not stored"),
        ([batch(0, 1, -1)], "State -1 is not stored"),
        ([batch(0, 1, count=-1)], "delivered -1 times"),
        ([batch(0, 0)] * (MAX_BATCHES + 1), f"at most {MAX_BATCHES}"),
        ([batch(0, 0)] * (MAX_OVERLAPPING + 1), f"At most {MAX_OVERLAPPING}"),
        ([batch(0, 0)] * MAX_OVERLAPPING, None),
    ],
)
def test_batches_that_cannot_be_are_told(batches: list[StateBatch], why: str | None) -> None:
    problem = problem_of(batches)
    assert problem is None if why is None else why in (problem or "")
