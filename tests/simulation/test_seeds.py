"""Seeds pass all checks, and without one of the rules they do not."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import pytest

from purgatorio.simulation import mutants
from purgatorio.simulation.history.transaction_history import TransactionHistory
from purgatorio.simulation.run import Scenario, has_transactions, simulate
from purgatorio.simulation.tier_mutants import TIER_RULES
from tests.compiled import replaces_functions
from tests.simulation.seeds import (
    CHUNK,
    HEAVY_CHUNK,
    HEAVY_SEEDS,
    PYTHONS,
    SEEDS,
    SEEDS_A_DAY,
    SEEDS_A_TURN,
    TRANSACTIONAL_CHUNK,
    TRANSACTIONAL_SEEDS,
    Seeds,
    turn_of,
)

CHUNK_TIMEOUT_SECONDS = 300
"""Far above the four seconds that a chunk takes: the machine may be busy, and its coverage may be measured."""


TIERED = Scenario(tier=True)

TIERED_DIVISOR = 2
"""Of so many seeds of a day one is simulated with a tier, too."""
DAYS_OF_RULES = 3
"""Days in which each mutant has its turn: all of them take two minutes."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        chosen: str = metafunc.config.getoption("simulation_seeds")
        metafunc.parametrize("seeds", Seeds.parse(chosen).chunks(CHUNK), ids=str)
    if "tiered_seeds" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("simulation_seeds")
        metafunc.parametrize("tiered_seeds", Seeds.parse(chosen).chunks(CHUNK)[::TIERED_DIVISOR], ids=str)
    if "rule" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("simulation_seeds")
        metafunc.parametrize("rule", rules_of(Seeds.parse(chosen)))
    if "transactional_seeds" in metafunc.fixturenames:
        given: str | None = metafunc.config.getoption("transactional_seeds")
        chunks = Seeds.parse(given).chunks(TRANSACTIONAL_CHUNK) if given else []
        metafunc.parametrize("transactional_seeds", chunks, ids=str)
    if "heavy_seeds" in metafunc.fixturenames:
        metafunc.parametrize("heavy_seeds", Seeds(SEEDS + 1, SEEDS + HEAVY_SEEDS).chunks(HEAVY_CHUNK), ids=str)


def assert_pass(seeds: Iterable[int], scenario: Scenario | None = None) -> None:
    """Simulate them all; a failure names the commands that replay what went wrong."""
    found = []
    for seed in seeds:
        anomalies = simulate(seed, scenario).anomalies
        if anomalies:
            option = " --tier" if scenario is TIERED else ""
            found.append(f"purgatorio simulate --seed {seed}{option}   # {anomalies[0]}")
    assert not found, "to see what happened:\n" + "\n".join(found)


@pytest.mark.simulation
@pytest.mark.no_cover  # it covers what the other simulations do, and takes four times as long if that is measured
@pytest.mark.timeout(CHUNK_TIMEOUT_SECONDS)
def test_seeds_pass_all_checks(seeds: Seeds) -> None:
    assert_pass(seeds.each)


@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(CHUNK_TIMEOUT_SECONDS)
def test_seeds_with_transactions_pass_all_checks(transactional_seeds: Seeds) -> None:
    assert_pass(filter(has_transactions, transactional_seeds.each))


@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(CHUNK_TIMEOUT_SECONDS)
def test_seeds_with_a_tier_pass_all_checks(tiered_seeds: Seeds) -> None:
    assert_pass(tiered_seeds.each, TIERED)


@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(CHUNK_TIMEOUT_SECONDS)
@pytest.mark.parametrize("seed", [1, 15, 26, 64, 200, 210])
def test_seeds_with_a_tier_that_found_something_pass_all_checks(seed: int) -> None:
    """See docs/simulated-seeds.md."""
    assert_pass([seed], TIERED)


@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(CHUNK_TIMEOUT_SECONDS)
@pytest.mark.parametrize("seed", [409, 442, 923, 2_169, 2_584, 2_769])
def test_seeds_that_found_something_pass_all_checks(seed: int) -> None:
    """See docs/simulated-seeds.md."""
    assert_pass([seed])


@pytest.mark.heavy
@pytest.mark.timeout(2 * CHUNK_TIMEOUT_SECONDS)
def test_many_seeds_pass_all_checks(heavy_seeds: Seeds) -> None:
    assert_pass(heavy_seeds.each)


@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(CHUNK_TIMEOUT_SECONDS)
@pytest.mark.parametrize(("seed", "produce_version"), [(19, 9), (35, 11)])
def test_clients_of_transaction_version_1_pass_all_checks_on_brokers_of_version_2(
    seed: int, produce_version: int
) -> None:
    """As aiokafka, kafka-python and librdkafka on brokers with default settings; at 19 with zombies."""
    report = simulate(seed, Scenario(transaction_version=2))
    assert report.swarm.transactions is not None
    assert report.swarm.transactions.versions.produce == produce_version
    assert report.anomalies == []
    transactions = TransactionHistory(report.history).transactions.values()
    assert sum(transaction.is_committed for transaction in transactions) > 10
    assert report.reached["timed-out"] > 0, "brokers abort by their own version"


# Seeds at which each mutant is known to be found out. When the code changes, others may be: the search goes on over all
# seeds, and what it finds is worth a place here.
FOUND_AT = {
    "identity": (16, 27, 48),
    "old-assignments": (37,),
    "maximal-isr": (72,),
    "min-isr": (7, 16, 28),
    "elr": (45, 48),
    "explicit-unclean": (2, 7),
    "epoch-truncation": (7,),
    "self-fencing": (12, 14, 15),
    "patient-restart": (1,),
    "refused-batches": (4,),
    "slow-clocks": (80,),
    "whole-deltas": (1, 2),
    "whole-sessions": (3,),
    "session-epochs": (39,),
    "marked-cuts": (7, 8, 10),
    "ended-registrations": (48, 118),
    "replicated-commits": (47, 59),
    "current-generations": (39, 106, 114),
    "whole-loads": (18,),
    "ended-sessions": (20, 39),
    "retried-markers": (3, 36),
    "last-stable-offset": (3, 4, 11),
    "producer-epochs": (11, 19, 36),
    "replicated-decisions": (19, 77),
    "truncated-index": (174, 90, 104),
    "transactional-offsets": (3, 4, 11),
    "slow-turns": (3, 4, 6),
    "lock-time": (9, 36, 41),
    "lock-holder": (36, 50),
    "lock-end": (9, 36, 41),
    "written-acknowledgements": (36, 41),
    "loaded-states": (9, 36, 41),
    "delivery-limit": (36, 45, 48),
    "needed-states": (9, 36, 41),
    "all-assigned": (9, 45),
    "written-dead-letters": (123,),
    "resumed-dead-letters": (123, 241, 182),
    "repeated-dead-letters": (123, 220, 241),
    "ended-aborts": (203,),
    "copied-when-decided": (1,),
    "records-first": (1,),
    "copied-before-deleted": (2,),
    "checked-parts": (2,),
    "rebuilt-epochs": (2,),
    "rebuilt-producers": (2,),
    "copied-aborts": (3,),
    "log-start-first": (6,),
    "woken-by-failures": (5,),
}

SCENARIOS = {
    # It takes the process of all brokers, and no fault of one.
    "slow-turns": Scenario(faults=("slow-turns",)),
    # It takes a leader that cannot reach the store while a follower lags: with all faults one seed of hundreds has it.
    "maximal-isr": Scenario(faults=("hold-followers", "store")),
    # It takes a leader that refuses one batch and takes the next before its producer hears of the first.
    "refused-batches": Scenario(faults=("pause", "slow-store", "store")),
    # It takes an append in the tenth of a lease by which a slow clock is late.
    "slow-clocks": Scenario(faults=("store",)),
    # Each open transaction shows it.
    "last-stable-offset": Scenario(seconds=4.0),
    # It takes a marker that fails, and a producer that goes on.
    "retried-markers": Scenario(faults=("in-doubt", "stop", "isolate")),
    # It takes a coordinator that dies before its followers have the result of a transaction.
    "replicated-decisions": Scenario(faults=("hold-followers", "in-doubt")),
    # It takes a leader that appends an abort marker, and follows before the marker is replicated.
    "truncated-index": Scenario(faults=("hold-followers", "in-doubt", "isolate")),
    **dict.fromkeys(TIER_RULES, TIERED),
    # It takes a short answer, and a consumer that reads what was cut off.
    "checked-parts": Scenario(tier=True, faults=("lying-tier", "client-crash", "lying-tier")),
    # It takes a read of which all tries fail, while a fetch waits for it.
    "woken-by-failures": Scenario(tier=True, faults=("lying-tier", "failing-tier", "client-crash")),
}


def rules_of(seeds: Seeds) -> list[str]:
    """The rules whose mutants are tried with these seeds: a third of them on one day, all with the seeds of many."""
    if seeds.last - seeds.first >= SEEDS_A_DAY:
        return list(FOUND_AT)
    return list(FOUND_AT)[seeds.first // SEEDS_A_DAY % DAYS_OF_RULES :: DAYS_OF_RULES]


def test_every_rule_has_its_day() -> None:
    days = [Seeds(first, first + SEEDS_A_DAY - 1) for first in range(1, DAYS_OF_RULES * SEEDS_A_DAY, SEEDS_A_DAY)]
    assert sorted(rule for day in days for rule in rules_of(day)) == sorted(FOUND_AT)
    assert rules_of(Seeds(1, SEEDS)) == list(FOUND_AT)


def test_each_rule_has_its_number_and_seeds_that_find_its_mutant() -> None:
    assert list(FOUND_AT) == list(mutants.RULES)
    numbers = [str(number) for number, _ in enumerate(mutants.RULES, 1)]
    assert [mutants.describe(rule).split(".")[0] for rule in mutants.RULES] == numbers


@replaces_functions
@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(2 * CHUNK_TIMEOUT_SECONDS)
def test_without_a_rule_the_checks_find_it_out(rule: str, record_property: pytest.RecordProperty) -> None:
    scenario = SCENARIOS.get(rule)
    for seed in dict.fromkeys((*FOUND_AT[rule], *range(1, SEEDS + 1))):
        with mutants.without(rule):
            found = mutants.proofs(rule, simulate(seed, scenario).anomalies)
        if found:
            assert simulate(seed, scenario).anomalies == [], "with the rule, the same seed passes"
            if seed not in FOUND_AT[rule]:
                record_property("note", f"mutant {rule}: found at seed {seed}, and at none of {FOUND_AT[rule]}")
            return
    pytest.fail(f"{SEEDS} seeds pass without the rule")


def test_every_seed_has_its_day() -> None:
    today = datetime.date(2026, 2, 27)
    days = [Seeds.of_day(today + datetime.timedelta(days=day)) for day in range(SEEDS // SEEDS_A_DAY)]
    seeds = [seed for day in days for chunk in day.chunks(CHUNK) for seed in range(chunk.first, chunk.last + 1)]
    assert sorted(seeds) == list(range(1, SEEDS + 1))


def test_every_seed_with_transactions_has_its_turn() -> None:
    today = datetime.date(2026, 2, 27)
    for environment in ({}, {"GITHUB_RUN_NUMBER": "77"}):
        turns = [turn_of(environment, today, minor) for minor in (11, 12, 13, 14)]
        assert turns == list(range(turns[0], turns[0] + PYTHONS)), "each version of Python has another"
    assert turn_of({}, today + datetime.timedelta(days=1), 11) == turn_of({}, today, 14) + 1
    assert turn_of({"GITHUB_RUN_NUMBER": "78"}, today, 11) == turn_of({"GITHUB_RUN_NUMBER": "77"}, today, 14) + 1
    seeds = [seed for turn in range(TRANSACTIONAL_SEEDS // SEEDS_A_TURN) for seed in Seeds.of_turn(turn + 9).each]
    assert sorted(seeds) == list(range(1, TRANSACTIONAL_SEEDS + 1))
    assert sum(map(has_transactions, seeds)) == 2_001


@pytest.mark.parametrize(("text", "expected"), [("101-200", Seeds(101, 200)), ("7", Seeds(7, 7))])
def test_seeds_are_read_from_text(text: str, expected: Seeds) -> None:
    assert Seeds.parse(text) == expected


@pytest.mark.parametrize("text", ["", "x", "2-1", "-1", "1-"])
def test_text_that_names_no_seeds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="seeds are given as"):
        Seeds.parse(text)
