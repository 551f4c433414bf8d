"""Clients that know transaction.version 2: they use it by default, and keep to version 1 in a cluster that has that.

With version 2 each transaction has an epoch of its own, and leaders add its partitions (KIP-890). The other files run
all of their loops with version 2.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest

from purgatorio.admin.cli.admin_client import AdminClient as Operator
from tests.compat.conftest import RunningCluster, running_cluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.compat.transactions.conftest import Start, create
from tests.compat.transactions.test_exactly_once import PARTITIONS, check_copied, feeding

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 300)]

TRANSACTIONS = 5
LEADERS_ADD_FROM = 4
"""The first version of AddPartitionsToTxn that only leaders send."""
SENT = re.compile(r'kafka_network_requestmetrics_requests_total\{.*request="(\w+)",version="(\d+)".*\} (\d+)')


@pytest.fixture(scope="module", params=[1, 2])
def versioned(request: pytest.FixtureRequest) -> Iterator[tuple[RunningCluster, int]]:
    """A cluster with transaction.version 1 or 2, and which it is."""
    with running_cluster(transaction_version=request.param) as running:
        yield running, request.param


def added_by_clients(cluster: RunningCluster) -> int:
    """How many requests of clients have added partitions or groups to their transactions."""
    with urllib.request.urlopen(f"{cluster.admin_url}/metrics", timeout=10) as page:
        sent = SENT.findall(page.read().decode())
    assert any(name == "EndTxn" for name, _, _ in sent), "the requests are counted"
    return sum(
        int(count)
        for name, version, count in sent
        if name == "AddOffsetsToTxn" or (name == "AddPartitionsToTxn" and int(version) < LEADERS_ADD_FROM)
    )


@pytest.mark.parametrize("client", ["franz-go", "java"])
def test_the_version_tells_whether_each_transaction_has_an_epoch_of_its_own(
    versioned: tuple[RunningCluster, int], worker_of: Start, topic: str, client: str
) -> None:
    cluster, version = versioned
    create(cluster.bootstrap, **{topic: 1})
    worker = worker_of(cluster, client)
    worker.do(f"init id-{topic}")
    for nth in range(TRANSACTIONS):
        worker.do("begin", f"send {topic} {nth}", "abort" if nth == 1 else "commit")
    assert worker.values(topic, "committed", TRANSACTIONS - 1) == ["0", "2", "3", "4"]
    epoch = Operator(cluster.admin_url).get(f"transactions/id-{topic}")["producer_epoch"]
    assert (epoch >= TRANSACTIONS) == (version == 2)
    worker.stop()


@pytest.mark.parametrize("client", ["franz-go", "java"])
def test_a_loop_copies_each_record_exactly_once(
    versioned: tuple[RunningCluster, int], worker_of: Start, topic: str, client: str
) -> None:
    """With version 2 neither partitions nor groups are added by requests of their own."""
    cluster, version = versioned
    bootstrap, target = cluster.bootstrap, f"{topic}-copy"
    create(bootstrap, **{topic: PARTITIONS, target: PARTITIONS})
    with feeding(bootstrap, topic) as fed:
        first = worker_of(cluster, client)
        first.start(f"copy {topic} {target} group-{topic} id-{topic}")
        first.wait_for_copies()
        first.close()
        second = worker_of(cluster, client)
        second.start(f"copy {topic} {target} group-{topic} id-{topic}")
        second.wait_for_copies()
    check_copied(second, bootstrap, target, fed)
    assert (added_by_clients(cluster) > 0) == (version == 1)
