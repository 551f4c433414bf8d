"""Whether the hot modules run compiled (`./scripts/compile`), and what then cannot be tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.purgatory import timing_wheel

COMPILED = Path(str(timing_wheel.__file__)).suffix != ".py"

checks_types_itself = pytest.mark.skipif(
    COMPILED,
    reason="compiled functions refuse arguments of wrong types in words of their own, and take a bool as an int",
)
_NOT_CALLED = "compiled modules call each other's functions directly, so that a replaced one is not called"

replaces_functions = pytest.mark.skipif(COMPILED, reason=_NOT_CALLED)

extends_classes = pytest.mark.skipif(
    COMPILED, reason="compiled classes have no subclasses outside, but for those that are marked for it"
)

reads_annotations = pytest.mark.skipif(COMPILED, reason="compiled functions have no annotations")


def skip_if_compiled() -> None:
    """Skip the test that runs, since it is about to replace a function of a compiled module."""
    if COMPILED:
        pytest.skip(_NOT_CALLED)


def stale_modules(root: Path) -> list[str]:
    """The extension modules that are older than their source, which would be tested instead of it."""
    modules = [
        each for folder in ("purgatory", "protocol", "broker", "admin") for each in (root / folder).rglob("*.so")
    ]
    return [
        str(module.relative_to(root))
        for module in modules
        if not (source := module.with_name(module.name.partition(".")[0].removesuffix("__mypyc") + ".py")).exists()
        or source.stat().st_mtime > module.stat().st_mtime
    ]
