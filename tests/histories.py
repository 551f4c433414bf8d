"""How many random histories a model is compared with."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, *, quick: int) -> list[Any]:
    """Return the seeds from 0 on; those after the first few are left out by ``./scripts/test --quick``."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))]
