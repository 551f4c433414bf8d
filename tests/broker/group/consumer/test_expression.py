"""Regular expressions match as RE2's do, and always in time."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.group.consumer.expression import Expression
from purgatorio.broker.group.consumer.expression_parser import ExpressionError

ATOMS = st.sampled_from(
    ["a", "b", "-", r"\.", ".", "[ab]", "[^a]", "[a-b-]", r"\d", r"\W", r"[\d.]", r"\b", r"\B", "^", "$", "[]a]", "1"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", ""])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
        inner.map(lambda text: f"(?i:{text})"),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=8,
)


@given(pattern=PATTERNS, names=st.lists(st.text("abAB1-._", min_size=1, max_size=6), max_size=5))
def test_what_matches_is_what_python_matches(pattern: str, names: list[str]) -> None:
    expression = Expression(pattern)
    for name in names:
        assert expression.matches(name) == bool(re.fullmatch(pattern, name)), (pattern, name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders-.*", "orders-eu"),
        ("orders|bills", "bills"),
        ("(?i)ORDERS", "orders"),
        ("(?P<kind>orders)-(?<part>[[:digit:]]+)", "orders-12"),
        (r"\Qa.b\E", "a.b"),
        (r"\Aa\z", "a"),
        (r"\x61\x{62}\143", "abc"),
        ("a{,2}", "a{,2}"),
        ("[[:^alpha:]_]+", "1-2_"),
        ("(?s-i:a.c)", "abc"),
        ("", ""),
        ("[a-]", "-"),
        (r"[\]]", "]"),
        ("(a(?i)b|c)d", "aBd"),
    ],
)
def test_re2_s_syntax_is_understood(text: str, name: str) -> None:
    assert Expression(text).matches(name)


@pytest.mark.parametrize(
    ("text", "name"), [("orders", "orders-eu"), ("(a(?i)b|c)d", "abD"), ("é", "e"), ("[é-ü]", "f")]
)
def test_the_whole_name_must_match(text: str, name: str) -> None:
    assert not Expression(text).matches(name)


@pytest.mark.parametrize(
    "text",
    [
        "(", ")", "a)", "[", "[a", "[z-a]", "*", "a**", "a*+", "a{2}{2}", "a{1001}", "a{2,1}", "(?=a)", "(?<=a)",
        "(?!a)", r"(a)\1", r"(?P=n)", "(?P<>a)", "(?<a-b>c)", "\\", r"\C", r"\xg", r"\x{", "[[:no:]]", "(?", "(?i",
        "(" * 200, "a" * 1_001, "(a{100}){100}", r"\q", "[\\",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", "(a+)+" * 20 + "b", "a*" * 50 + "b"])
def test_expressions_that_take_a_backtracking_matcher_years_are_quick(text: str) -> None:
    assert not Expression(text).matches("a" * 249)


def test_an_expression_that_takes_too_much_work_is_refused() -> None:
    greedy = Expression("(a|b)*a" + "(a|b)" * 100 + "c")
    names = [format(number, "0200b").replace("0", "a").replace("1", "b") for number in range(10_000)]
    with pytest.raises(ExpressionError):
        all(not greedy.matches(name) for name in names)


def test_names_that_match_in_the_same_way_cost_no_work() -> None:
    expression = Expression("orders-[0-9]+")
    for number in range(1_000):
        assert expression.matches(f"orders-{number}")
    before = expression.work
    assert expression.matches("orders-99999")
    assert expression.work == before


LETTERS = string.ascii_letters
ASCII = "".join(map(chr, range(128)))
SYMBOLS = "$+<=>^`|~"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\pL", LETTERS),
        (r"\p{L}", LETTERS),
        (r"\p{Lu}", string.ascii_uppercase),
        (r"[\p{Lu}\d]", string.digits + string.ascii_uppercase),
        (r"\P{N}", "".join(each for each in ASCII if each not in string.digits)),
        (r"\p{^L}", "".join(each for each in ASCII if each not in LETTERS)),
        (r"\P{^L}", LETTERS),
        (r"[^\p{Lu}]", "".join(each for each in ASCII if each not in string.ascii_uppercase)),
        (r"[\PL]", "".join(each for each in ASCII if each not in LETTERS)),
        (r"(?i)\p{Lu}", LETTERS),
        (r"(?i)\P{Lu}", "".join(each for each in ASCII if each not in LETTERS)),
        (r"(?i)[\P{Lu}]", "".join(each for each in ASCII if each not in LETTERS)),
        (r"(?i)[^\p{Lu}]", "".join(each for each in ASCII if each not in LETTERS)),
        (r"\p{Any}", ASCII),
        (r"\p{Latin}", LETTERS),
        (r"\p{Common}", "".join(each for each in ASCII if each not in LETTERS)),
        (r"\p{Greek}", ""),
        (r"\P{Han}", ASCII),
        (r"\p{S}", SYMBOLS),
        (r"\pP", "".join(each for each in string.punctuation if each not in SYMBOLS)),
        (r"\p{Pd}", "-"),
        (r"\p{Pc}", "_"),
        (r"\pZ", " "),
        (r"\p{C}", "".join(map(chr, [*range(32), 127]))),
        (r"\pM", ""),
        (r"[\pL-z]", "-" + LETTERS),
    ],
)
def test_unicode_classes_match_the_ascii_that_re2_j_1_8_matches(text: str, expected: str) -> None:
    expression = Expression(text)
    assert "".join(filter(expression.matches, ASCII)) == "".join(sorted(expected))


@pytest.mark.parametrize(
    "text",
    [
        r"\p", r"\p{", r"\p{}", r"\p{L", r"\p{Lx}", r"\p{LU}", r"\pl", r"\p^", r"\p{ L}", r"\p{Cn}", r"\p{IsL}",
        r"\p{letter}", r"\p{Zyyy}", r"[\p{Lu]", r"[a-\pL]", r"\p{^^L}", r"\p{^",
    ],
)  # fmt: skip
def test_unknown_unicode_classes_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)
