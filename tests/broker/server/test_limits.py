"""The bounds themselves."""

from __future__ import annotations

import pytest

from purgatorio.broker.server.limits import ConnectionLimits


def test_every_limit_has_a_default_and_is_documented() -> None:
    """A limit without documentation cannot be found."""
    limits = ConnectionLimits()
    assert ConnectionLimits.__doc__ is not None
    for name in ConnectionLimits.__dataclass_fields__:
        assert getattr(limits, name) or name == "max_connections_of"
        assert f"{name}:" in ConnectionLimits.__doc__


@pytest.mark.parametrize("name", list(ConnectionLimits.__dataclass_fields__))
def test_a_limit_of_zero_is_refused_by_name(name: str) -> None:
    """Zero would mean a broker that answers no client."""
    with pytest.raises(ValueError, match=name):
        ConnectionLimits(**{name: 0})


def test_the_low_water_mark_must_not_be_above_the_high_one() -> None:
    """Writing would never go on."""
    with pytest.raises(ValueError, match="write_low_water_bytes"):
        ConnectionLimits(write_low_water_bytes=2, write_high_water_bytes=1)
