"""The mark of classes for mypyc (docs/compiled.md), without a need for the package that only a compilation uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_attributes):
        """Mark a class for mypyc, which reads the mark in the source; here it does nothing."""
        return lambda kind: kind
