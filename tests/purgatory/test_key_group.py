"""Operations that are watched under a group of keys: marked by events, and checked a bounded number at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.purgatory import GroupOperation, GroupWatch, KeyGroup, LaterChecks, Purgatory, WatchedKey
from purgatorio.purgatory.key_group import CHECKED_PER_TURN, KEY_COST


class Key(WatchedKey["Basket"]):
    def __init__(self, name: str, group: Basket) -> None:
        self.name = name
        self.context = group


class Basket(KeyGroup[Key, "Filling"]):
    """Waits for `needed` of its keys to be marked."""

    def __init__(self, *names: str, weight: int = 1) -> None:
        self.marked = {}
        self.operation = None
        self.weight = weight
        self.keys = [Key(name, self) for name in names]


class Filling(GroupOperation):
    def __init__(self, basket: Basket, needed: int) -> None:
        super().__init__(10_000)
        self.is_deferred = False
        self.basket, self.needed = basket, needed
        self.checks = 0
        self.answers: list[list[str]] = []

    @property
    def weight(self) -> int:
        return self.basket.weight

    def try_complete(self) -> bool:
        self.checks += 1
        return len(self.basket.marked) >= self.needed and self.force_complete()

    def on_complete(self) -> None:
        self.basket.operation = None
        self.answers.append([key.name for key in self.basket.marked])

    def on_error(self, error: Exception) -> None:
        raise error


Watch = GroupWatch[str, Key]


@pytest.fixture
def purgatory(make_house: Callable[..., Any]) -> Purgatory[Any]:
    purgatory: Purgatory[Any] = make_house().purgatory
    return purgatory


def park(purgatory: Purgatory[Any], watch: Watch, basket: Basket, needed: int = 1) -> Filling:
    operation = Filling(basket, needed)
    assert not purgatory.try_complete_else_watch(operation, ("baskets",))
    basket.operation = operation
    for key in basket.keys:
        watch.watch(key.name, key)
    return operation


def test_an_event_marks_its_key_and_checks_the_operation_of_the_group(purgatory: Purgatory[Any]) -> None:
    watch: Watch = GroupWatch(purgatory)
    filling = park(purgatory, watch, Basket("a", "b", "c"), needed=2)
    parked = filling.checks
    watch.check_and_complete("b", "append")
    checked = filling.checks
    assert checked > parked
    watch.check_and_complete("elsewhere", "append")
    assert filling.checks == checked
    watch.check_and_complete("c", "append")
    assert filling.answers == [["b", "c"]]


def test_a_marked_key_hears_of_no_event_until_it_is_watched_again(purgatory: Purgatory[Any]) -> None:
    watch: Watch = GroupWatch(purgatory)
    basket = Basket("a", "b")
    filling = park(purgatory, watch, basket, needed=2)
    watch.check_and_complete("a", "append")
    checked = filling.checks
    watch.check_and_complete("a", "append")
    assert filling.checks == checked
    assert not watch.of("a")
    basket.marked.clear()  # looked at
    watch.watch("a", basket.keys[0])
    watch.check_and_complete("a", "append")
    assert filling.checks > checked


def test_a_group_outlives_its_operation_and_is_marked_without_one(purgatory: Purgatory[Any]) -> None:
    watch: Watch = GroupWatch(purgatory)
    basket = Basket("a", "b")
    park(purgatory, watch, basket)
    watch.check_and_complete("a", "append")
    assert basket.operation is None
    watch.check_and_complete("b", "append")
    assert [key.name for key in basket.marked] == ["a", "b"]


def test_what_is_discarded_is_not_marked(purgatory: Purgatory[Any]) -> None:
    watch: Watch = GroupWatch(purgatory)
    basket = Basket("a", "b")
    filling = park(purgatory, watch, basket)
    for key in basket.keys:
        watch.discard(key.name, key)
    watch.discard("never", basket.keys[0])
    watch.check_and_complete("a", "append")
    assert (filling.answers, basket.marked, watch.lists) == ([], {}, {})


def test_who_wants_to_know_hears_of_an_event_before_the_check(purgatory: Purgatory[Any]) -> None:
    heard: list[tuple[str, bool]] = []
    watch: Watch = GroupWatch(purgatory, on_event=lambda key: heard.append((key.name, key.context.operation is None)))
    park(purgatory, watch, Basket("a"))
    watch.check_and_complete("a", "append")
    assert heard == [("a", False)]


def test_operations_that_are_too_many_for_one_turn_are_checked_in_later_turns(purgatory: Purgatory[Any]) -> None:
    works: list[Iterator[int]] = []
    later = LaterChecks(purgatory, works.append)
    watch: Watch = GroupWatch(purgatory, later)
    fillings = [park(purgatory, watch, Basket("a", weight=CHECKED_PER_TURN)) for _ in range(3)]
    watch.check_and_complete("a", "append")
    for answered in (1, 2, 3):
        assert [len(each.answers) for each in fillings] == [1] * answered + [0] * (3 - answered)
        assert [each.is_deferred for each in fillings] == [False] * answered + [True] * (3 - answered)
        if answered < 3:
            assert next(works[0]) == KEY_COST * CHECKED_PER_TURN
    assert list(works.pop()) == []
    assert not works, "one work takes them all"
