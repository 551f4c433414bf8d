"""Purgatorio answers what Apache Kafka answers: the same raw requests to both, compared field by field.

What differs on purpose is in `known.py`, each with its reason. CI compares a part each time: `test_some_answers.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from purgatorio.client.wire import Wire
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from tests.compat.same_answers.compare import RUNS, Compared, Run, Side, Sides, clusters, known
from tests.compat.same_answers.known import KNOWN, NOT_ALWAYS

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("java") is None or shutil.which("mvn") is None,
        reason="Java 17 or Maven is not installed (Debian: apt-get install default-jdk-headless maven)",
    ),
]


def _clusters(**kind: bool) -> Iterator[Sides]:
    with ExitStack() as stack:
        try:
            sides = stack.enter_context(clusters(**kind))
        except SystemExit as error:
            pytest.skip(str(error))
        yield sides


@pytest.fixture(scope="module")
def open_sides() -> Iterator[Sides]:
    """Both clusters, without an authorizer."""
    yield from _clusters()


@pytest.fixture(scope="module")
def guarded_sides() -> Iterator[Sides]:
    """Both clusters, with an authorizer."""
    yield from _clusters(guarded=True)


@pytest.fixture(scope="module")
def tiered_sides() -> Iterator[Sides]:
    """Both clusters, with a tier."""
    yield from _clusters(tiered=True)


@pytest.fixture(scope="module")
def compared() -> Compared:
    """Shared by all runs."""
    return Compared()


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_same_answers(request: pytest.FixtureRequest, compared: Compared, run: Run) -> None:
    """Each history is answered alike, but for the known differences."""
    unknown = compared.add(run, request.getfixturevalue(f"{run.kind}_sides"))
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_same_features(open_sides: Sides, version: int) -> None:
    """The features that Purgatorio has are told as Kafka tells them."""
    theirs, ours = (_features(side, version) for side in open_sides)
    assert {"group.version", "share.version", "transaction.version"} == {name for _, name in ours}
    for key, (least, most) in ours.items():
        assert least == theirs[key][0] or key == ("finalized", "share.version")
        assert most == theirs[key][1] or (key[1] == "share.version" and most < theirs[key][1]), key


def _features(side: Side, version: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The levels of each feature, by what is told and the feature's name."""
    wire = Wire(side[0])
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = wire.ask(request, version)
    wire.close()
    assert answer.finalized_features_epoch >= 0
    supported = {("supported", each.name): (each.min_version, each.max_version) for each in answer.supported_features}
    return supported | {
        ("finalized", each.name): (each.min_version_level, each.max_version_level) for each in answer.finalized_features
    }


def test_known_differences_are_still_there(compared: Compared) -> None:
    """What no longer differs has no place in the list."""
    if compared.runs < len(RUNS):
        pytest.skip("not all histories ran before this test")
    seen = {pattern for lines in compared.found.values() for each in lines for pattern in known(each)}
    gone = sorted(KNOWN.keys() - seen - NOT_ALWAYS)
    assert not gone, "\n".join(gone)
