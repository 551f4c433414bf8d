"""Each delayed operation of the broker tells as data what it waits for, and leaves the sentence to the causes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import purgatorio.broker
from purgatorio.broker.causes.cause import Cause
from purgatorio.purgatory import DelayedOperation
from purgatorio.purgatory.waiter import Waiter
from tests.compiled import reads_annotations


def operations(of: type[DelayedOperation]) -> Iterator[type[DelayedOperation]]:
    """The broker's classes below this one that wait: a base says nothing of what happens at the end of the wait."""
    for each in of.__subclasses__():
        is_base = bool(each.__subclasses__()) and "causes" not in vars(each)  # such as LeadersAnswer, for endings alone
        ends = each.on_complete is not DelayedOperation.on_complete
        if each.__module__.startswith("purgatorio.broker.") and ends and not is_base:
            yield each
        yield from operations(each)


BROKER = Path(purgatorio.broker.__path__[0])
for source in BROKER.rglob("*.py"):
    if "DelayedOperation" in source.read_text():
        import_module(
            ".".join(("purgatorio.broker", *source.relative_to(BROKER).with_suffix("").parts)).removesuffix(".__init__")
        )
OPERATIONS = sorted(set(operations(DelayedOperation)), key=lambda each: each.__name__)


def test_the_operations_are_found() -> None:
    assert len(OPERATIONS) >= 15


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_an_operation_tells_its_causes(operation: Any) -> None:
    assert "causes" in vars(operation), "what it inherits tells nothing of its own"
    assert not hasattr(operation, "missing"), "the sentence is made by its causes"


@reads_annotations
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_an_operation_tells_causes_that_are_declared(operation: type[DelayedOperation]) -> None:
    if operation is not Waiter:
        assert told_by(operation) <= set(get_args(Cause))


def told_by(operation: type[DelayedOperation]) -> set[Any]:
    """Return the classes of the causes, by the annotation of `causes`."""
    hint = get_type_hints(operation.causes)["return"]
    of = get_args(hint)[0]
    return set(get_args(of)) or {of}


@reads_annotations
def test_each_cause_has_words_and_is_told_by_an_operation() -> None:
    told = set().union(*(told_by(operation) for operation in OPERATIONS))
    for cause in get_args(Cause):
        assert not {"__str__", "sentence"}.isdisjoint(vars(cause)), cause
        assert cause in told, cause
