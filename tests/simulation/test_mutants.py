"""A mutant replaces only functions of the same parameters, and only its own kinds of anomaly prove it."""

from __future__ import annotations

import pytest

from purgatorio.broker.metadata.controller import elections
from purgatorio.broker.replica.fetching.reader import ReplicaReader
from purgatorio.broker.replica.partition import Partition
from purgatorio.simulation import mutants
from purgatorio.simulation.checks.checkers import CHECKS, Anomaly
from purgatorio.simulation.checks.group_checkers import GROUP_CHECKS
from purgatorio.simulation.checks.internal_errors import INTERNAL_ERROR
from purgatorio.simulation.checks.invariants import INVARIANTS
from purgatorio.simulation.checks.share_checkers import SHARE_CHECKS
from purgatorio.simulation.checks.transaction_checkers import TRANSACTION_CHECKS
from purgatorio.simulation.rules import WrongSignature, replaced
from tests.compiled import replaces_functions


@replaces_functions
@pytest.mark.parametrize("rule", mutants.RULES)
def test_each_mutant_fits_the_code_that_it_replaces(rule: str) -> None:
    before = vars(Partition).copy()
    with mutants.without(rule):
        pass
    assert vars(Partition) == before, "all is as before"


@replaces_functions
def test_a_replacement_without_a_parameter_that_callers_pass_is_refused() -> None:
    with pytest.raises(WrongSignature, match=r"advance_high_watermark takes .*by.*, its replacement"):
        replaced(Partition, "advance_high_watermark", lambda partition: True)


@replaces_functions
def test_a_replacement_with_another_default_is_refused() -> None:
    def advance(partition: Partition, *, by: int = 0) -> bool:
        return True

    with pytest.raises(WrongSignature):
        replaced(Partition, "advance_high_watermark", advance)


@replaces_functions
def test_a_static_method_and_a_function_of_a_module_are_compared_with_all_their_parameters() -> None:
    with pytest.raises(WrongSignature):
        replaced(ReplicaReader, "_diverging_epoch", lambda request: None)
    with pytest.raises(WrongSignature):
        replaced(elections, "_may_return", lambda incarnation: True)


@pytest.mark.parametrize("rule", mutants.RULES)
def test_only_the_kinds_of_anomaly_that_a_mutant_declares_prove_it(rule: str) -> None:
    assert mutants.RULES[rule].found_by <= {
        *CHECKS,
        *GROUP_CHECKS,
        *TRANSACTION_CHECKS,
        *SHARE_CHECKS,
        *INVARIANTS,
        "not-converged",
    }
    assert mutants.proofs(rule, [Anomaly(INTERNAL_ERROR, "broker-1", "TypeError"), Anomaly("phantom", "", "")]) == []
    for kind in mutants.RULES[rule].found_by:
        expected = Anomaly(kind, "orders-0", "")
        assert mutants.proofs(rule, [Anomaly("phantom", "", ""), expected]) == [expected]
