"""The page that counts simulated seeds counts right."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from purgatorio.simulation.run import has_transactions
from tests.simulation.seeds import SEEDS_A_TURN, TRANSACTIONAL_SEEDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "simulated-seeds.md").read_text()
ROWS = re.findall(r"^\| (\d+)–(\d+) \| (\d+) \|", PAGE, re.MULTILINE)


def test_the_rows_name_as_many_seeds_with_transactions_as_there_are() -> None:
    ranges = [range(int(first), int(last) + 1) for first, last, _ in ROWS]
    counts = [sum(map(has_transactions, seeds)) for seeds in ranges]
    assert counts == [int(count) for *_, count in ROWS]
    assert all(before.stop <= after.start for before, after in pairwise(ranges)), "no seed is counted twice"
    assert f"**{sum(counts):,} of 2,001 have run here.**" in PAGE


def test_the_page_names_the_seeds_of_ci() -> None:
    assert f"seeds 1 to {TRANSACTIONAL_SEEDS:,}" in PAGE
    assert f"the next {SEEDS_A_TURN} seeds" in PAGE
    assert TRANSACTIONAL_SEEDS / SEEDS_A_TURN / 4 == 25
