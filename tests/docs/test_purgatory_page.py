"""The page of purgatories names those of Kafka, each with the one that it is here."""

from __future__ import annotations

import re
from pathlib import Path

from purgatorio.broker.causes.kinds import KINDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "purgatory.md"
OF_KAFKA = ["Produce", "Fetch", "DeleteRecords", "ShareFetch", "RemoteFetch", "RemoteListOffsets", "AlterAcls"]
"""Those of Kafka 4.4: its classes that extend DelayedOperation."""


def test_each_purgatory_of_kafka_is_one_here() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [kafkas for kafkas, _ in rows] == OF_KAFKA
    assert {ours for _, ours in rows} <= KINDS.keys()
