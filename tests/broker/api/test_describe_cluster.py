"""Tests of the DescribeCluster handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_cluster
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_and_its_brokers_are_described(cluster: Any, version: int) -> None:
    response = cluster.ask(describe_cluster, version, DescribeClusterRequest())
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id) == ("test-cluster", 1)
    assert [(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers] == [
        (n, f"host-{n}", 9000 + n, f"rack-{n}") for n in (1, 2, 3)
    ]
    assert response.cluster_authorized_operations == -(2**31)


def test_authorized_operations_are_included_on_request(cluster: Any) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert cluster.ask(describe_cluster, 0, request).cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_other_endpoints_than_brokers_are_refused(cluster: Any, endpoint_type: int, error: ErrorCode) -> None:
    response = cluster.ask(describe_cluster, 1, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert response.error_code == error
    assert response.error_message
    assert response.brokers == []
    assert response.endpoint_type == 1, "the answer is that of a broker"
