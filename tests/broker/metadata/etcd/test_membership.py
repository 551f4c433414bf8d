"""How the brokers of a cluster know each other, as etcd has it."""

from __future__ import annotations

import re

import pytest

from purgatorio.broker.metadata.etcd.membership import Membership

BY_SECRET = Membership("SASL_PLAINTEXT", "5ec4e7")


@pytest.mark.parametrize(
    ("membership", "text"),
    [(BY_SECRET, "5ec4e7"), (Membership("SSL", ""), "SSL "), (Membership("SASL_SSL", "5ec4e7"), "SASL_SSL 5ec4e7")],
)
def test_the_text_of_a_membership_stands_for_it(membership: Membership, text: str) -> None:
    """That of a secret alone is what the first version wrote."""
    assert str(membership) == text
    assert Membership.of(text) == membership
    assert membership.refusal(membership, "purgatorio/") == ""


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (
            Membership("SSL", ""),
            "protocol=SSL, and this one has SASL_PLAINTEXT: set it to the same",
        ),
        (Membership("SASL_SSL", "5ec4e7"), "=SASL_SSL, and this one has SASL_PLAINTEXT"),
        (Membership("SASL_PLAINTEXT", "07he4"), r"another secret: give this broker the cluster\.secret\.file"),
        (None, "another secret"),
    ],
)
def test_a_broker_of_another_membership_is_told_what_to_set(found: Membership | None, why: str) -> None:
    assert re.search(why, BY_SECRET.refusal(found, "purgatorio/"))
