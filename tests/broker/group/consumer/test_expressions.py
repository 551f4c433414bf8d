"""Regular expressions are matched in steps, once for all groups, at a cost that follows what has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from purgatorio.broker.group.consumer import consumer_groups, expression, expressions
from purgatorio.broker.group.consumer.expression import Expression
from purgatorio.broker.group.consumer.expressions import MAX_UNUSED
from purgatorio.broker.time.long_work import SLICE, take_slice
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness
from tests.broker.group.counted import check_counts
from tests.broker.time.by_hand import slices

LONG_NAMES = {f"n{nth:05}{'x' * 240}": 1 for nth in range(1_000)}


class Counted:
    """What the matcher does."""

    def __init__(self) -> None:
        self.parsed = 0
        self.characters = 0
        self.most_at_once = 0

    def step(self) -> None:
        """A step has ended."""
        self.most_at_once = max(self.most_at_once, self.characters)
        self.characters = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counts = Counted()
    original: Callable[[Expression, str], bool] = Expression.matches
    made: Callable[[Expression, str], None] = Expression.__init__

    def matches(self: Expression, name: str) -> bool:
        counts.characters += len(name)
        return original(self, name)

    def init(self: Expression, text: str) -> None:
        counts.parsed += 1
        made(self, text)

    monkeypatch.setattr(Expression, "matches", matches)
    monkeypatch.setattr(Expression, "__init__", init)
    return counts


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness()


def by_expression(broker: ConsumerHarness, text: str, member_id: str = "one", group_id: str = "app") -> Consumer:
    consumer = Consumer(broker, member_id, (), subscribed_topic_regex=text)
    request = consumer.request
    consumer.request = lambda: {**request(), "group_id": group_id}  # type: ignore[method-assign]
    return consumer


def test_an_expression_over_thousands_of_long_names_is_matched_in_steps(
    broker: ConsumerHarness, counted: Counted
) -> None:
    broker.create(**LONG_NAMES)
    one = by_expression(broker, ".*" * 490)
    one.beat()
    counted.step()
    assert (one.epoch, one.partitions) == (1, [])  # it is a member, and told more when more is known
    steps = 0
    for _ in slices(broker.groups.consumer.expressions.steps()):
        counted.step()
        steps += 1
    assert steps > 10
    assert counted.most_at_once < 10 * SLICE + 300
    broker.settle(one)
    assert len(one.partitions) == 1_001, "the internal topic, too"


def test_hard_expressions_have_bounded_work() -> None:
    for text in (".*" * 490, "(a|b)*a" + "(a|b)" * 100 + "c", "(.?){330}n", ".*" + "(n|x|0)" * 120):
        matcher = Expression(text)
        try:
            for name in LONG_NAMES:
                matcher.matches(name)
        except expression.ExpressionError:
            pass
        assert matcher.work < expression.MAX_WORK + 2_000


@pytest.mark.slow
def test_a_new_topic_costs_a_match_for_each_expression_and_no_parsing(
    broker: ConsumerHarness, counted: Counted
) -> None:
    members = [by_expression(broker, f"(?i)orders-{nth}|{'.*' * 200}", group_id=f"g{nth}") for nth in range(120)]
    for member in members:
        member.beat()
    assert counted.parsed == 120
    broker.match()
    counted.characters = counted.parsed = 0
    broker.create(orders=6, bills=2, books=1)
    broker.match()
    assert (counted.characters, counted.parsed) == (120 * len("books"), 0)
    for member in members:
        while member.beat():
            pass
        assert member.partitions[3] == "books-0"


def test_a_new_topic_is_matched_in_steps(broker: ConsumerHarness, counted: Counted) -> None:
    for nth in range(300):
        by_expression(broker, f"o.*|{nth}", group_id=f"g{nth}").beat()
    counted.characters = 0
    broker.create(orders=6, bills=2, **{"b" * 240: 1})
    counted.step()
    assert broker.match() > 2
    counted.step()
    assert counted.most_at_once <= 240 * 300
    assert not any(broker.group(f"g{nth}").stale_expressions for nth in range(300))


def test_an_expression_of_many_groups_is_matched_once(broker: ConsumerHarness, counted: Counted) -> None:
    members = [by_expression(broker, "b.*", group_id=f"g{nth}") for nth in range(20)]
    for member in members:
        member.beat()
    matched = counted.characters
    assert matched < 100
    broker.create(orders=6, bills=2, books=1)
    assert (counted.characters, counted.parsed) == (matched + len("books"), 1)
    for member in members:
        while member.beat():
            pass
        assert member.partitions == ["bills-0", "bills-1", "books-0"]
    broker.create(orders=6, books=1)
    while members[0].beat():
        pass
    assert broker.group("g0").expressions["b.*"].topics == {"books"}


def test_topics_that_come_and_go_during_the_first_match_are_right(broker: ConsumerHarness) -> None:
    broker.create(**LONG_NAMES)
    one = by_expression(broker, "b.*|n0.*")
    one.beat()
    first, *rest = LONG_NAMES
    left = dict.fromkeys(rest, 1)
    steps = broker.groups.consumer.expressions.steps()
    take_slice(steps)
    broker.create(books=1, **left)
    broker.match()
    broker.settle(one)
    assert len(one.partitions) == 1_000
    assert "books-0" in one.partitions
    assert first not in broker.group().expressions["b.*|n0.*"].topics


def test_an_expression_that_takes_too_much_work_matches_nothing(
    broker: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = by_expression(broker, "[ob].*")
    broker.settle(one)
    assert len(one.partitions) == 8
    monkeypatch.setattr(expression, "MAX_WORK", 0)
    broker.create(orders=6, bills=2, other=1)
    broker.settle(one)
    assert one.partitions == []


def test_what_no_group_uses_any_more_is_forgotten(broker: ConsumerHarness) -> None:
    one, two = by_expression(broker, "b.*"), by_expression(broker, "o.*", "two")
    broker.settle(one, two)
    matcher = broker.groups.consumer.expressions
    assert len(matcher) == 2
    assert matcher.memory.used_bytes > 1_000
    one.leave()
    assert len(matcher) == 1
    broker.elect_again()
    broker.settle(two)
    assert len(matcher) == 1
    two.leave()
    assert (len(matcher), matcher.memory.used_bytes) == (0, 0)
    check_counts(broker.groups)


def test_expressions_of_refused_members_do_not_pile_up(broker: ConsumerHarness) -> None:
    one = by_expression(broker, "b.*")
    broker.settle(one)
    for nth in range(50):
        refused = Consumer(broker, "two", ["t" * 249] * 5_000, subscribed_topic_regex=f"o{nth}").request()
        assert broker.refusal(**refused) == ErrorCode.INVALID_REQUEST
        assert broker.refusal(**by_expression(broker, f"({nth}", "two").request())
    assert len(broker.groups.consumer.expressions) <= 1 + MAX_UNUSED


def test_expressions_without_room_are_refused() -> None:
    broker = ConsumerHarness(max_memory_bytes=2_000_000)
    codes = []
    for nth in range(20):
        request = by_expression(broker, f"{nth}" + "a?" * 300, group_id=f"g{nth}").request()
        try:
            broker.ask(**request)
        except expressions.CoordinatorError as error:
            codes.append(error.error_code)
    assert set(codes) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert 3 < len(codes) < 17
    assert check_counts(broker.groups) <= 2_000_000


def test_the_expressions_of_a_group_may_match_so_many_topics_together(
    broker: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_groups, "MAX_MATCHED", 3)
    one = by_expression(broker, "[^_].*")
    broker.settle(one)
    assert broker.refusal(**by_expression(broker, "[ob].*", "two").request()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    two = by_expression(broker, "b.*", "two")
    broker.settle(one, two)
    broker.create(orders=6, bills=2, books=1)
    broker.settle(one, two)  # what matches more later leaves the group at work, with what it matched before
    assert sum(len(each.topics) for each in broker.group().expressions.values()) == 3


def test_many_expressions_of_a_group_are_looked_at_with_several_heartbeats(
    broker: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_groups, "TOPICS_PER_HEARTBEAT", 5)
    members = [by_expression(broker, f"b.*|{nth}", f"m{nth}") for nth in range(6)]
    broker.settle(*members)
    broker.create(bills=2, books=1)
    group = broker.group()
    assert len(group.stale_expressions) == 6
    members[0].beat()
    assert 0 < len(group.stale_expressions) < 6
    assert group.is_metadata_stale
    broker.settle(*members)
    assert not group.stale_expressions
    assert all(len(each.topics) == 2 for each in group.expressions.values())
