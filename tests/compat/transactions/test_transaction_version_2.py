"""Clients that know transaction.version 2, in a cluster that has it: transactions have an epoch each (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from purgatorio.broker.cli.admin_client import AdminClient as Operator
from tests.compat.conftest import RunningCluster, running_cluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.compat.transactions.conftest import Start, create
from tests.compat.transactions.test_exactly_once import PARTITIONS, check_copied, feeding

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 300)]

TRANSACTIONS = 5


@pytest.fixture(scope="module")
def bumping() -> Iterator[RunningCluster]:
    """A cluster with transaction.version 2."""
    with running_cluster(transaction_version=2) as running:
        yield running


@pytest.mark.parametrize("client", ["franz-go", "java"])
def test_each_transaction_has_an_epoch_of_its_own(
    bumping: RunningCluster, worker_of: Start, topic: str, client: str
) -> None:
    create(bumping.bootstrap, **{topic: 1})
    worker = worker_of(bumping, client)
    worker.do(f"init id-{topic}")
    for nth in range(TRANSACTIONS):
        worker.do("begin", f"send {topic} {nth}", "abort" if nth == 1 else "commit")
    assert worker.values(topic, "committed", TRANSACTIONS - 1) == ["0", "2", "3", "4"]
    assert Operator(bumping.admin_url).get(f"transactions/id-{topic}")["producer_epoch"] >= TRANSACTIONS
    worker.stop()


@pytest.mark.parametrize("client", ["franz-go", "java", "confluent-kafka"])
def test_a_loop_copies_each_record_exactly_once(
    bumping: RunningCluster, worker_of: Start, topic: str, client: str
) -> None:
    """confluent-kafka goes on as with version 1."""
    bootstrap, target = bumping.bootstrap, f"{topic}-copy"
    create(bootstrap, **{topic: PARTITIONS, target: PARTITIONS})
    with feeding(bootstrap, topic) as fed:
        first = worker_of(bumping, client)
        first.start(f"copy {topic} {target} group-{topic} id-{topic}")
        first.wait_for_copies()
        first.close()
        second = worker_of(bumping, client)
        second.start(f"copy {topic} {target} group-{topic} id-{topic}")
        second.wait_for_copies()
    check_copied(second, bootstrap, target, fed)
