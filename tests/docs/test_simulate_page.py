"""The program of docs/simulate.md passes, and the page names what there is."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import ModuleType

import pytest

from purgatorio.testing.simulate import World
from purgatorio.testing.simulate.checks import CHECKS
from purgatorio.testing.simulate.faults import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "simulate.md").read_text()


@pytest.mark.simulation
def test_the_program_passes_and_is_five_times_faster_than_real_time() -> None:
    program = re.findall(r"^```python\n# test_billing.py\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[0]
    module = ModuleType("test_billing")
    exec(compile(program, "docs/simulate.md", "exec"), module.__dict__)
    scenario = module.test_each_order_is_billed_once
    started = time.process_time()  # not the wall's time: other tests run beside this one
    outcomes = [module.simulate(scenario, seed=seed, topics={"orders": 3}) for seed in range(2)]
    assert all(outcome.passed for outcome in outcomes)
    assert sum(outcome.virtual_seconds for outcome in outcomes) > 5 * (time.process_time() - started)


def test_the_names_on_the_page_are_the_worlds() -> None:
    named = set(re.findall(r"`(?:await )?world\.(\w+)", PAGE))
    attributes = {"store", "bootstrap", "bootstrap_servers"}
    assert named - attributes == {"service", "produce", "topic", "records", "settle", "check", "now", "seconds"}
    assert named - attributes <= set(dir(World))
    assert all(f"`{kind}`" in PAGE for kind in KINDS)
    assert all(f"`{check}`" in PAGE or f'("{check}"' in PAGE for check in CHECKS)
