"""Which build runs: modules of Python, or compiled ones (docs/compiled.md)."""

from __future__ import annotations

import os

import purgatorio


def build() -> str:
    """Return "compiled" if extension modules lie beside the sources, else "interpreted"; loads no broker."""
    folders = [os.path.join(folder, "purgatory") for folder in purgatorio.__path__]
    files = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    return "compiled" if any(name.endswith((".so", ".pyd")) for name in files) else "interpreted"
