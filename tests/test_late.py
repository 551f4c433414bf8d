"""Dataclasses whose methods are compiled late: whatever is asked of them, they are as those of `dataclasses`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from purgatorio.late import dataclass

ROOT = Path(__file__).resolve().parents[1]
MAKERS: list[Any] = [dataclass, dataclasses.dataclass]
made_with = pytest.mark.parametrize("maker", MAKERS, ids=["late", "early"])


def classes(maker: Any) -> tuple[Any, Any]:
    """Return a frozen class and one that can change, with all that fields may have."""

    @maker(frozen=True, slots=True)
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list, compare=False)
        note: str = dataclasses.field(default="n", kw_only=True, repr=False, hash=False)

    @maker(slots=True, kw_only=True)
    class Box:
        size: int
        twice: int = dataclasses.field(init=False)
        count: int = dataclasses.field(default=0, init=False)

        def __post_init__(self) -> None:
            self.twice = self.size * 2
            self.count = 5

    return Point, Box


@made_with
def test_objects_are_made_and_shown(maker: Any) -> None:
    point, box = classes(maker)
    assert repr(point(1)).endswith("Point(x=1, y=2, names=[])")
    assert repr(point(1, 3, ["a"], note="b")).endswith("Point(x=1, y=3, names=['a'])")
    assert point(1).names is not point(1).names
    assert repr(box(size=4)).endswith("Box(size=4, twice=8, count=5)")
    for wrong in (lambda: point(), lambda: point(1, 2, [], "n"), lambda: point(1, z=2), lambda: box(4)):
        with pytest.raises(TypeError):
            wrong()
    assert inspect.signature(point(1).__class__).parameters["note"].kind is inspect.Parameter.KEYWORD_ONLY
    assert point.__match_args__ == ("x", "y", "names")
    assert not hasattr(point(1), "__dict__")


@made_with
def test_objects_are_compared_and_hashed_by_the_fields_that_say_so(maker: Any) -> None:
    point, box = classes(maker)
    assert point(1, names=["a"]) == point(1, names=["b"])
    assert point(1) != point(2)
    assert point(1) != (1, 2)
    assert point(1, note="a") != point(1, note="b")
    assert hash(point(1, note="a")) == hash(point(1, note="b")) == hash((1, 2))
    assert {point(1): 1}[point(1)] == 1
    assert box(size=1) == box(size=1)
    assert box(size=1) != box(size=2)
    with pytest.raises(TypeError):
        hash(box(size=1))


@made_with
def test_frozen_objects_stay_as_they_are(maker: Any) -> None:
    point, _ = classes(maker)
    one = point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        del one.x
    assert one.x == 1


@made_with
def test_the_functions_of_dataclasses_know_them(maker: Any) -> None:
    point, box = classes(maker)
    assert dataclasses.is_dataclass(point)
    assert [field.name for field in dataclasses.fields(point)] == ["x", "y", "names", "note"]
    assert dataclasses.replace(point(1, 5), x=3) == point(3, 5)
    assert dataclasses.asdict(box(size=2)) == {"size": 2, "twice": 4, "count": 5}
    assert copy.copy(point(1, 5)) == copy.deepcopy(point(1, 5)) == point(1, 5)


@made_with
@pytest.mark.parametrize("first", [lambda one: one == one, hash, repr, copy.copy], ids=["eq", "hash", "repr", "copy"])
def test_any_method_may_be_the_first_one(maker: Any, first: Callable[[Any], object]) -> None:
    """An object that no constructor made, as `copy` makes them."""
    point, _ = classes(maker)
    one = object.__new__(point)
    for field in dataclasses.fields(point):
        object.__setattr__(one, field.name, 7)
    assert first(one) is not None
    assert point(1) == point(1)


@made_with
def test_a_class_keeps_what_it_defines(maker: Any) -> None:
    @maker(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    assert (hash(Own(1)), repr(Own(1))) == (5, "own")
    assert Own(1) == Own(2)

    @maker(eq=False)
    class Same:
        x: int

    assert Same(1) != Same(1)
    assert isinstance(hash(Same(1)), int)

    @maker
    class Made:
        x: int = 3

        def __init__(self) -> None:
            self.x = 4

    assert Made().x == 4


@made_with
def test_a_subclass_has_the_methods_of_its_base(maker: Any) -> None:
    point, _ = classes(maker)

    class Plain(point):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def __init__(self, x: int) -> None:
            super().__init__(x + 1)

    assert Plain(1).x == 2
    assert Plain(1) == Plain(1)
    assert hash(Plain(1)) == hash(point(2))

    @maker(frozen=True, slots=True)
    class Derived(point):  # type: ignore[misc, valid-type]
        w: int = 9

    assert repr(Derived(1, 2, [], 8)).endswith("Derived(x=1, y=2, names=[], w=8)")
    assert Derived(1) != point(1)

    with pytest.raises(TypeError, match="non-frozen"):

        @maker
        class Changing(point):  # type: ignore[misc, valid-type]
            w: int = 9


@dataclass(frozen=True, slots=True)
class Pickled:
    x: int
    y: str = "y"


def test_objects_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Pickled(4))) == Pickled(4)


def test_after_the_first_call_a_method_is_the_compiled_one() -> None:
    point, _ = classes(dataclass)
    first = point.__init__, point.__eq__, point.__hash__
    hash(point(1)), point(1) == point(1)
    assert not set(first) & {point.__init__, point.__eq__, point.__hash__}
    assert point.__init__.__qualname__.endswith("Point.__init__")
    assert list(inspect.signature(point).parameters) == ["x", "y", "names", "note"]


def test_modules_take_dataclasses_from_here() -> None:
    """But for those that are compiled, and the purgatory, which stands alone. Each class costs a start 0.3 ms else."""
    exempt = {*ROOT.glob("purgatory/*.py")}
    early = re.compile(r"^from dataclasses import .*\bdataclass\b|^@dataclasses\.dataclass", re.MULTILINE)
    found = [
        str(path.relative_to(ROOT))
        for room in ("purgatory", "protocol", "broker", "admin", "testing", "purgatorio/client")
        for path in sorted((ROOT / room).rglob("*.py"))
        if path not in exempt and early.search(text := path.read_text()) and "# compiled: docs" not in text
    ]
    assert found == [], "write: from purgatorio.late import dataclass"
