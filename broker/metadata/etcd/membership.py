"""How the brokers of a cluster know each other, as its first broker wrote it to etcd: ``PREFIX/secret``."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

BY_SECRET: Final = "SASL_PLAINTEXT"
"""The protocol of clusters whose key names none."""
BY_CERTIFICATES: Final = "SSL"
"""The protocol without a secret."""
_WITH_TLS: Final = (BY_CERTIFICATES, "SASL_SSL")


class Membership(NamedTuple):
    """The settings that all brokers of a cluster share.

    Attributes:
        protocol: how they speak with each other (security.inter.broker.protocol).
        proof: a value that only a broker with the cluster's secret can compute; empty if they have no secret.
    """

    protocol: str
    proof: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the text of a membership."""
        protocol, _, proof = text.partition(" ")
        return cls(protocol, proof) if protocol in _WITH_TLS else cls(BY_SECRET, text)

    def __str__(self) -> str:
        """Return the text; that of a cluster with a secret alone is the proof."""
        return self.proof if self.protocol == BY_SECRET else f"{self.protocol} {self.proof}"

    def refusal(self, found: Membership | None, root: str) -> str:
        """Return why a broker with this one cannot join the cluster below `root`, and what to set; empty if it can."""
        if found == self:
            return ""
        elsewhere = "a prefix of its own (etcd://HOST:PORT/PREFIX) to begin another cluster"
        if found is not None and found.protocol != self.protocol:
            return (
                f"the brokers of the cluster under {root} know each other by security.inter.broker.protocol="
                f"{found.protocol}, and this one has {self.protocol}: set it to the same, with the files that it needs "
                f"(docs/hosts.md), or give it {elsewhere}"
            )
        return (
            f"the cluster under {root} has another secret: give this broker the cluster.secret.file of "
            f"its other brokers, or {elsewhere}"
        )
