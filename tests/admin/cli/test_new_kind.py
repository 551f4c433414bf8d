"""A new kind of purgatory is a row of the table and its operation; all that shows what waits shows it by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httpx
import pytest

from purgatorio.admin.cli.top.views import VIEWS
from purgatorio.admin.operations.purgatories import State
from purgatorio.broker.causes.kinds import KINDS, Kind
from purgatorio.purgatory import DelayedOperation
from purgatorio.testing import Kafka

NAP = Kind("Nap", "nap", is_late=True)


class DelayedNap(DelayedOperation):
    """Waits for noise."""

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """Answer nobody."""

    def causes(self) -> Sequence[str]:
        return ("too quiet",)


def test_a_new_kind_is_shown_everywhere(
    command: Callable[[str], str], controlled: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, NAP.purgatory, NAP)
    nap = DelayedNap(60_000)
    purgatory_of = controlled._cluster.brokers[0].purgatory_of
    controlled._call(lambda: purgatory_of(NAP).try_complete_else_watch(nap, ["sofa"]), "park")
    state = controlled.do(State())
    (page,) = (each for each in state["brokers"][0]["purgatories"] if each["name"] == "Nap")
    assert [(each["kind"], each["missing"]) for each in page["operations"]] == [("nap", "too quiet")]
    assert {"1 nap", "  Nap 1 on 1"} <= {row.cells[0] for row in VIEWS["parked"].rows(state)}
    metrics = httpx.get(f"{controlled.admin_url}/metrics").text
    assert 'delayedoperationpurgatory_numdelayedoperations{broker="1",delayedOperation="Nap"} 1' in metrics
    assert command("parked list --api Nap").splitlines()[1].split()[1] == "Nap"
    assert "broker 1 Nap, " in controlled.report()
    (parked,) = controlled.parked(api="Nap")
    controlled.expire(parked)
